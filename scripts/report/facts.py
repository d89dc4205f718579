"""Facts of a run as rows of text, for the page and for Markdown."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from launchers.exits import Exit
from launchers.progress.phases import durations
from launchers.state.json_text import part
from scripts.export import tested
from scripts.observe import spent
from scripts.plan.units import bytes_text, time_text
from scripts.report import timeline
from scripts.report.numbers import count, percent, plain
from scripts.report.record import Attempt, RunRecord

Row = tuple[str, ...]


def state(run: RunRecord) -> str:
    """Return the run's state in one word or two."""
    found = str(run.progress.get("state") or "unknown")
    code = run.progress.get("code")
    return f"failed, exit code {code}" if found == "failed" and code else found


def headline(run: RunRecord) -> str:
    """Return what became of the run, in one or two sentences."""
    if run.unread:
        return f"Its steps could not be read: {run.unread}."
    if not run.rows:
        stage = run.progress.get("stage")
        return "No step has been recorded" + (f"; stage {stage}." if stage else ".")
    count = len([a for a in run.attempts if a.first_step])
    text = f"Trained {run.step:,} of {run.total:,} steps"
    text += f" in {count} attempt{'s' * (count != 1)}" if count else ""
    lost = sum(a.lost_steps for a in run.attempts)
    text += f", of which {lost:,} were trained twice." if lost else "."
    if len(run.evaluations) > 1:
        first, last = run.evaluations[0].summary(), run.evaluations[-1].summary()
        text += (
            f" On held-out pairs, from step {first['step']} to step {last['step']}: accuracy "
            f"{plain(first['accuracy'])} → {plain(last['accuracy'])}, margin "
            f"{plain(first['margin'])} → {plain(last['margin'])}, loss {plain(first['loss'])} → "
            f"{plain(last['loss'])}."
        )
    return text


def reason(run: RunRecord) -> str:
    """Return why the run failed; empty for another state."""
    return str(run.progress.get("why") or "") if run.progress.get("state") == "failed" else ""


def figures(run: RunRecord) -> Iterator[Row]:
    """Yield the key figures: name, value, explanation."""
    yield "Steps", "not read" if run.unread else f"{run.step:,} / {run.total:,}", ""
    if run.evaluations:
        last = run.evaluations[-1]
        held = last.summary()
        yield "Held-out accuracy", plain(held["accuracy"]), f"step {last.step}"
        yield "Held-out margin", plain(held["margin"]), f"step {last.step}"
    yield from _training_loss(run)
    speed = run.medians.get("tokens_per_second_per_gpu")
    if speed is not None:
        yield "Speed", plain(speed), f"tokens/s per {unit(run)}, median"
    if "mfu" in run.medians:
        counted = {"online": ", with the reference's pass", "precomputed": ", of the policy alone"}
        yield "MFU", percent(run.medians["mfu"]), f"median{counted.get(reference(run), '')}"
    if run.peak_gib is not None:
        yield "GPU memory", f"{plain(run.peak_gib)} GiB", "peak of the largest rank"
    share = timeline.effective(run)
    if share is not None:
        yield "Effective training", percent(share), "of the time, in steps that count"
    yield from tested.rows(run.export_test)
    yield from tested.scores(run.benchmarks)
    yield from _cost(run)
    left = run.training.get("eta_seconds")
    if isinstance(left, int | float) and left and run.progress.get("state") == "running":
        yield "Remaining", time_text(left), "at the speed of the last steps"


def _cost(run: RunRecord) -> Iterator[Row]:
    """Yield the GPU-hours of a run, and what they cost."""
    if (used := spent.spent(run.progress, run.plan)) is not None:
        model = part(run.plan, "gang").get("card")
        yield "GPU-hours", spent.text(used, run.prices, model), "from the start of the pods"


def _training_loss(run: RunRecord) -> Iterator[Row]:
    """Yield the last loss; one that is not the last step's says so."""
    loss, missing = run.curves.get("loss"), run.missing.get("loss")
    if loss is not None:
        last = "last step" if not loss.is_reduced else "last steps"
        if missing is not None and missing.is_newest:
            last = f"last finite one; step {missing.last:,} has none"
        yield "Training loss", plain(loss.last), last
    for name, label in (("loss", "loss"), ("grad_norm", "gradient norm")):
        if (without := run.missing.get(name)) is not None:
            count = f"{without.steps:,} step{'s' * (without.steps != 1)}"
            yield f"Without a finite {label}", count, f"last: step {without.last:,}"


def reference(run: RunRecord) -> str:
    """Return how the reference's log-probabilities come: `online`, in each step, `precomputed`."""
    return str(part(run.plan, "recipe").get("reference") or "")


def planned(run: RunRecord) -> Iterator[Row]:
    """Yield plan and actual: measure, plan, actual, actual over plan."""
    speed, length = part(run.plan, "speed"), part(run.plan, "length")
    found = timeline.build(run)
    is_done = run.total > 0 and run.step >= run.total
    whole = found.totals["trained"] + found.totals["between"] if found and is_done else None
    hours = length.get("hours")
    evaluations = [each.seconds for each in run.evaluations]
    rows: list[tuple[str, Any, float | None]] = [
        ("step time, s", speed.get("step_seconds"), run.medians.get("seconds")),
        (
            f"tokens/s per {unit(run)}",
            speed.get("tokens_per_second_per_gpu"),
            run.medians.get("tokens_per_second_per_gpu"),
        ),
        ("MFU", speed.get("mfu"), run.medians.get("mfu")),
        ("GPU memory, GiB", part(run.plan, "memory").get("total_gib"), run.peak_gib),
        ("steps", length.get("steps"), float(run.step) if run.total else None),
        ("training, s", hours * 3600 if isinstance(hours, int | float) else None, whole),
        (
            "one evaluation, s",
            part(run.plan, "evaluation").get("seconds"),
            sum(evaluations) / len(evaluations) if evaluations else None,
        ),
    ]
    for name, plan, actual in rows:
        expected = float(plan) if isinstance(plan, int | float) else None
        if expected is None:  # the measured figure alone is among the key figures
            continue
        ratio = f"× {actual / expected:.2f}" if expected and actual is not None else ""
        yield name, plain(expected), plain(actual), ratio


def unit(run: RunRecord) -> str:
    """Return what a training process stands for."""
    return "GPU" if run.has_gpus else "process"


def unknown(run: RunRecord) -> Iterator[Row]:
    """Yield the parts that the plan could not predict, and why; equal reasons share a row."""
    reasons: dict[str, list[str]] = {}
    for name, why in part(run.plan, "unknown").items():
        reasons.setdefault(str(why), []).append(str(name))
    for why, names in reasons.items():
        yield ", ".join(names), why


def ended(attempt: Attempt) -> str:
    """Return why an attempt ended."""
    if attempt.end is None:
        return "No rank left a record of its end"
    code = attempt.end.code
    name = Exit(code).name.lower().replace("_", " ") if code in set(Exit) else "unknown"
    return f"Exit code {code} ({name}): {attempt.end.cause}"


def steps(attempt: Attempt) -> str:
    """Return the steps of an attempt."""
    if attempt.first_step is None:
        return "no step"
    lost = f", {attempt.lost_steps:,} of them trained again later" if attempt.lost_steps else ""
    return f"steps {attempt.first_step:,} to {attempt.last_step:,}{lost}"


def environment(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield what the run ran on."""
    gang, model, recipe = (part(run.plan, name) for name in ("gang", "model", "recipe"))
    if gang:
        gpus = gang.get("gpus_per_node")
        gpu = f" {str(gang['card']).upper()}" if gang.get("card") else " GPUs"
        what = f"{gpus} ×{gpu} each" if gpus else "no GPU"
        nodes = gang.get("nodes")
        yield "nodes", f"{nodes} node{'s' * (nodes != 1)}, {what}"
        if gang.get("network"):
            assumed = " (assumed)" if gang.get("network_assumed") else ""
            speed = f"{plain(gang.get('network_gbs'))} GB/s{assumed}"
            yield "network", f"{gang.get('network')}, {speed}"
    yield "processes", str(run.world or "–")
    if recipe:
        yield "recipe", f"{recipe.get('task')} with {recipe.get('backend')}"
        yield "model", str(recipe.get("model"))
        yield "data", ", ".join(map(str, recipe.get("dataset") or []))
        if recipe.get("reference"):
            yield "reference", str(recipe["reference"])
    if _count(model.get("parameters")):
        whole, active = (_count(model.get(name)) for name in ("parameters", "active_parameters"))
        active = f", {active} active" if active and active != whole else ""
        experts = f", {model.get('experts')} experts" if model.get("experts") else ""
        yield ("parameters", f"{whole}{active}, {model.get('layers')} layers{experts}")
    layout = part(run.plan, "layout")
    if layout:
        names = ("tp", "pp", "cp", "ep", "etp", "vpp", "dp", "edp")
        yield "layout", ", ".join(f"{n} {layout[n]}" for n in names if layout.get(n))
    if run.tokens is not None:
        yield "tokens trained", f"{run.tokens:,}"
    for name, when in (("first start", run.started), ("last write", run.progress.get("updated"))):
        if isinstance(when, int | float):
            yield name, clock(when)
    yield "files", run.place


def _count(value: object) -> str:
    return count(float(value)) if isinstance(value, int | float) else ""


def clock(when: float) -> str:
    """Return a Unix time as UTC, to the second.

    >>> clock(1795381150.7)
    '2026-11-22 20:59:10 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "–"


def versions(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield the versions that trained the newest checkpoint."""
    for name, version in part(run.features, "versions").items():
        yield str(name), str(version) or "not installed"


def patches(run: RunRecord) -> Iterator[Row]:
    """Yield the patches of upstream: name, effect, state, functions with digests."""
    for name, patch in part(run.features, "patches").items():
        if isinstance(patch, Mapping):
            functions = part(patch, "functions")
            listed = ", ".join(
                f"{f} {str(digest)[:12]}".rstrip() for f, digest in functions.items()
            )
            yield str(name), str(patch.get("effect", "")), str(patch.get("state", "")), listed


def digests(run: RunRecord) -> Iterator[Row]:
    """Yield what identifies inputs and outputs: name, size, SHA-256."""
    if digest := run.progress.get("digest"):
        yield "recipe and launcher", "", str(digest)
    for name, digest in run.inputs.items():
        yield str(name), "", str(digest)
    for name, entry in part(run.export, "files").items():
        if isinstance(entry, Mapping):
            yield f"export/{name}", bytes_text(entry.get("size", 0)), str(entry.get("sha256", ""))


def pods(run: RunRecord) -> Iterator[Row]:
    """Yield the ranks of the newest attempt: rank, pod, node, preflight."""
    for pod in run.attempts[-1].pods if run.attempts else ():
        found = [f for f in pod.get("findings") or () if isinstance(f, Mapping)]
        shown = [f"{f.get('check')}: {f.get('seen')}" for f in found if f.get("state") != "skipped"]
        passed = "passed" if pod.get("passed") else "failed"
        text = f"{passed}; {', '.join(shown)}"
        yield str(pod.get("rank")), str(pod.get("pod")), str(pod.get("node")), text


def arguments(run: RunRecord) -> Iterator[Row]:
    """Yield the recipe's arguments."""
    for name, value in part(part(run.plan, "recipe"), "args").items():
        yield str(name), str(value)


COUNTS = {
    "rows_read": "read",
    "rows_kept": "kept",
    "rows_dropped": "dropped",
    "pairs_doubtful": "trained on, but",
    "rows_not_counted": "not counted",
    "rows_so_far": "counted",
    "rows_drawn": "drawn by rank 0",
    "rows_replaced": "drawn, but replaced by another row",
}
"""Counts of the rows in ``packing.json``: numbers, and numbers by reason."""


def rows(run: RunRecord) -> Iterator[Row]:
    """Yield the rows of the newest attempt that counted them: read, kept, and each reason."""
    for name, value in _packing(run):
        if name in COUNTS and isinstance(value, Mapping):
            for why, count in value.items():
                yield f"{COUNTS[name]}: {why}", _grouped(count)
        elif name in COUNTS:
            yield COUNTS[name], _grouped(value)


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def packs(run: RunRecord) -> Iterator[Row]:
    """Yield the packing report of the newest attempt that has one."""
    if said := run.progress.get("prompts"):
        yield "prompts of pairs", str(said)
    for name, value in _packing(run):
        if name not in COUNTS:
            yield str(name).replace("_", " "), str(value)


def _packing(run: RunRecord) -> Iterator[tuple[str, object]]:
    for attempt in reversed(run.attempts):
        if attempt.packing:
            yield from attempt.packing.items()
            return


def start_phases(run: RunRecord) -> Iterator[Row]:
    """Yield the phases of the newest start and their seconds."""
    marks = {
        str(name): float(when)
        for name, when in part(run.progress, "phases").items()
        if isinstance(when, int | float)
    }
    for name, seconds in durations(marks).items():
        yield name.replace("_", " "), f"{seconds:.1f}"


def pairs(run: RunRecord) -> Iterator[Row]:
    """Yield what the ledger proves, and the margins of each epoch."""
    if trained := proof(run.pairs):
        yield "ledger", trained
    for each in _objects(run.pairs, "epochs"):
        margins = part(each, "margins").items()
        shown = ", ".join(f"{share} %: {_number(value)}" for share, value in margins)
        below = each.get("below_zero")
        share = f"; below 0: {below:.1%}" if isinstance(below, int | float) else ""
        yield f"margins of epoch {each.get('epoch')}, percentiles", shown + share


def proof(summary: Mapping[str, Any]) -> str:
    """Return whether each pair was trained exactly once in each epoch; empty without a ledger.

    >>> epoch = {"epoch": 1, "once": 9, "again": {"count": 0}, "not_trained": 1}
    >>> proof({"pairs": 10, "first_step": 1, "last_step": 3, "epochs": [epoch]})
    '10 pairs, steps 1 to 3: none more than once in an epoch; not trained in epoch 1: 1'
    """
    first, last = summary.get("first_step"), summary.get("last_step")
    epochs = _objects(summary, "epochs")
    if not epochs:
        return ""
    head = f"{summary.get('pairs')} pairs, steps {first} to {last}"
    found = []
    if count := part(summary, "missing_steps").get("count"):
        found.append(f"NOT PROVEN: {count} steps are missing")
    if first != 1:
        found.append("NOT PROVEN: the steps before were not recorded")
    for each in epochs:
        again = part(each, "again")
        if again.get("count"):
            rows = ", ".join(f"{p.get('file')}:{p.get('row')}" for p in _objects(again, "pairs"))
            found.append(f"epoch {each.get('epoch')}: {again['count']} more than once: {rows}")
    if not found:
        left = [(e.get("epoch"), e.get("not_trained")) for e in epochs if e.get("not_trained")]
        rest = "".join(f"; not trained in epoch {epoch}: {count}" for epoch, count in left)
        once = "none more than once in an epoch" if left else "each exactly once in each epoch"
        return f"{head}: {once}{rest}"
    return f"{head}: {'; '.join(found)}"


def worst_pairs(run: RunRecord) -> Iterator[Row]:
    """Yield the worst pairs: file, row, mean margin, margin in each epoch."""
    for each in _objects(run.pairs, "worst"):
        margins = part(each, "margins").values()
        yield (
            str(each.get("file")),
            str(each.get("row")),
            _number(each.get("margin")),
            ", ".join(map(_number, margins)),
        )


def _number(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else "–"


def _objects(of: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = of.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
