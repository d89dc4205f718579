"""The plan on one screen of 80 columns: job, cluster, layout, memory, time, workspace.

A part that cannot be predicted shows the reason instead.
"""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from launchers.config.recipe import Recipe
from launchers.config.settings import STAGES
from launchers.plan.footprint import WRITE_BYTES_PER_SECOND
from launchers.plan.plan import Plan
from launchers.units import GIB, count_text
from scripts.plan import bars, document, layout_text, ranking
from scripts.plan.search import Found, Search
from scripts.plan.submission import Submission
from scripts.plan.units import bytes_text, time_text
from scripts.plan.verdict import Verdict, model_states
from scripts.prices import Prices, money

_HEAD = "bold cyan"
BAR = 48
"""Characters of a bar."""
WIDTH = 70
"""Characters of a line right of the section's name, on a terminal of 80 columns."""
LINKS = {"nvlink": "NVLink"}
"""Labels of links; others are shown by their own name."""

MERGES = {
    "last": "of the adapter; a merged model of {size} with the last one",
    "every": "of the adapter; a merged model of {size} with each",
    "never": "of the adapter; not merged, the export is the adapter",
}
"""Files written with an adapter's checkpoints, by ``Training.merges``."""
AMOUNTS = ("run", "epoch", "thousand_pairs")
"""Of the cost in the document."""


def show(submission: Submission, plan: Plan, verdict: Verdict, prices: Prices) -> RenderableType:
    """Return all sections of a plan."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style=_HEAD, no_wrap=True, width=9)
    grid.add_column(overflow="fold")
    sections = {
        "what": _what(submission, plan),
        "where": _where(submission, plan),
        "layout": _layout(plan),
        "memory": _memory(submission, plan),
        "time": [*_time(plan), *_cost(plan, prices)],
        "workspace": _workspace(submission, plan),
    }
    for name, lines in sections.items():
        shown = list(lines)
        for word, line in zip([name, *[""] * len(shown)], shown, strict=False):
            grid.add_row(word, line)
        if shown:
            grid.add_row()
    return Group(_title(submission, plan, verdict), "", grid, *_verdict(verdict))


def proposed(search: Search, found: Sequence[Found]) -> RenderableType:
    """Return the nearest layouts that fit, shown below a plan that does not."""
    if not found:
        return Text(search.why_none(), "bold red")
    head = Text("\nnearest layouts that fit, by predicted speed:", "bold")
    more = Text("\nall layouts: --search", "dim")
    return Group(head, ranking.table(found), "", *ranking.lines(search, found[0]), more)


def faster(plan: Plan, found: Found) -> RenderableType:
    """Return how few recomputed layers fit, shown below a plan that recomputes more."""
    own, layers = plan.speed, found.training.recompute_num_layers
    share = 0.0 if own is None else 1 - found.speed.step_seconds / own.step_seconds
    return Text(
        f"recipe.args.recompute_num_layers={layers} fits, too: {found.memory.total:.1f} GiB, "
        f"steps {share:.0%} shorter (predicted)",
        "bold",
    )


def _title(submission: Submission, plan: Plan, verdict: Verdict) -> Text:
    method = submission.recipe.preference.upper() or submission.recipe.task
    word, colour = "accepted", "bold green"
    if plan.free_gib is None or plan.free_gib < 0:
        word, colour = "accepted, memory unknown", "bold yellow"
    if verdict.refusals:
        word, colour = "refused", "bold red"
    name = submission.recipe.model.rpartition("/")[2].partition("@")[0]
    how = f"{method} ({_tuner(submission.recipe)}) of {name}"
    if submission.recipe.script:
        how = f"script {submission.recipe.script[0]} with {name}"
    return Text.assemble((submission.run, "bold"), f": {how}: ", (word, colour))


def _tuner(recipe: Recipe) -> str:
    """Return ``full``, or the type of the adapter that is trained."""
    if not recipe.trains_adapter:
        return "full"
    given = recipe.arg("tuner_type", "full")
    return "lora" if given == "full" else given  # omitted, or overridden by an adapter to load


def _what(submission: Submission, plan: Plan) -> Iterator[str | Text]:
    recipe, model, training = submission.recipe, plan.job.model_config, plan.training
    yield recipe.model
    if model is None:
        yield Text(plan.job.model_config_source, "yellow")
    else:
        active = f", {model.active_parameters / 1e9:.2f} B active" if model.is_moe else ""
        sizes = f"{model.parameters / 1e9:.2f} B parameters{active}, {model.layers} layers"
        sizes += "" if model.is_counted else ", as a usual decoder: its model_type is not known"
        yield f"{sizes} ({plan.job.model_config_source})"
    more = len(recipe.dataset) - 1
    yield f"dataset {recipe.dataset[0]}" + (f" and {more} more" if more else "")
    if training is not None:
        pack = training.packing_length or training.max_length
        unit = f"packs of {pack:,} tokens" if training.packing else "pairs"
        yield (
            f"{training.global_batch_size} {unit} a step, {training.microbatches} microbatches "
            f"on {training.layout.dp} replicas"
        )
    elif recipe.backend == "transformers":
        yield _rows(submission)
    if plan.job.prompts:
        yield f"prompts of pairs are computed {plan.job.prompts}"
    given = [f"{word} {recipe.args[name]}" for name, word in _ARGS.items() if name in recipe.args]
    if given:
        yield ", ".join(given)


def _rows(submission: Submission) -> str:
    """Return the rows of a step of the transformers trainer; its GPUs are all replicas."""
    of = [submission.recipe.arg(name, "1") for name in _BATCH]
    gpus = submission.nodes * max(1, submission.gpus_per_node)
    if not all(each.isdecimal() for each in of):
        return f"rows of a step: {' x '.join(of)} x {gpus} processes"
    return f"{int(of[0]) * int(of[1]) * gpus} rows a step: {' x '.join(of)} x {gpus} processes"


_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")
_ARGS = {
    "loss_type": "loss", "beta": "beta", "rpo_alpha": "rpo_alpha", "lr": "lr",
    "learning_rate": "lr", "num_train_epochs": "epochs", "train_iters": "steps",
    "max_steps": "steps",
}  # fmt: skip
"""Flags that are shown, with their labels."""


def _where(submission: Submission, plan: Plan) -> Iterator[str]:
    queue = f"queue {submission.queue}" if submission.queue else "no queue: starts at once"
    extras = (submission.priority and f"priority {submission.priority}", submission.topology)
    yield ", ".join(filter(None, [queue, *extras]))
    gpu = plan.gpu.name if plan.gpu else "GPU (model not known)"
    gpus = f"{submission.gpus_per_node} {gpu}" if submission.gpus_per_node else "CPU only"
    fabric = f", {layout_text.fabric(plan)}" if submission.nodes > 1 else ""
    yield f"{count_text(submission.nodes, 'node')} x {gpus}{fabric}"
    pod = submission.pod
    limit = "memory without limit" if pod.memory is None else f"{pod.memory / GIB:.0f} GiB memory"
    shared = "" if pod.shared_memory is None else f" ({pod.shared_memory / GIB:.0f} of /dev/shm)"
    yield f"a pod: {pod.cpus:g} cores, {limit}{shared}"
    devices = [f"{count} {name}" for name, count in pod.devices.items()]
    if devices:
        yield f"       {', '.join(devices)}"
    stages = ", ".join(stage for stage in STAGES if stage not in submission.skips)
    skipped = "".join(f", {stage} skipped" for stage in STAGES if stage in submission.skips)
    yield f"stages {stages or 'none'} ({submission.placement}{skipped})"


def _layout(plan: Plan) -> Iterator[str | Text]:
    if plan.training is None:
        yield Text(plan.unknown["training"], "yellow")
        return
    yield from layout_text.lines(plan, plan.training)


def _memory(submission: Submission, plan: Plan) -> Iterator[str | Text]:
    """Yield the memory of the fullest GPU by part, of all stages, and of the host."""
    used, states = plan.memory, model_states(plan)
    if states is not None:
        of = "" if plan.gpu is None else f" of {plan.gpu.memory_gib:.1f}"
        yield f"at least {states.total:.1f}{of} GiB a GPU, {states.sharding}: " + ", ".join(
            f"{name} {size:.1f}"
            for name, size in vars(states).items()
            if name not in ("sharding", "host") and size >= 0.05
        )
        if states.host:
            yield f"at least {states.host * plan.job.gpus_per_node:.0f} GiB of a host: offloaded"
        yield "activations, logits and buffers are not predicted"
    if plan.training is None:
        return
    if used is None:
        yield Text(plan.unknown["memory"], "yellow")
        return
    items = bars.items_of(used)
    if plan.gpu is None:
        yield Text(f"{used.total:.1f} GiB a GPU, predicted; {plan.unknown['speed']}", "yellow")
    else:
        size = plan.gpu.memory_gib
        bar = bars.itemised(items, size, BAR)
        yield bar + Text(f" {used.total:.1f} of {size:.1f} GiB")
    yield from bars.legend(items, WIDTH)
    if len(used.per_stage) > 1:
        stages = " ".join(f"{total:.1f}" for total in used.per_stage)
        yield f"predicted for the fullest stage; all stages: {stages}"
    limit = submission.pod.memory
    if limit is not None:
        bar = bars.plain(used.host, limit / GIB, BAR)
        yield bar + Text(f" {used.host:.0f} of {limit / GIB:.0f} GiB host")


def _time(plan: Plan) -> Iterator[str | Text]:
    """Yield the time of a step with its band, its communication, and the time of the run."""
    speed = plan.speed
    if plan.training is None:
        return
    if speed is None and plan.unknown["speed"] != plan.unknown.get("memory"):
        yield Text(plan.unknown["speed"], "yellow")
    if speed is not None:
        band = f"{time_text(speed.low)} to {time_text(speed.high)}"
        rate = f"{speed.tokens_per_second_per_gpu:,.0f} tokens/s/GPU, MFU {speed.mfu:.1%}"
        yield f"step {time_text(speed.step_seconds)} (predicted, {band}), {rate}"
        waits = [
            f"{LINKS.get(link, link)} {time_text(seconds)}"
            for link, seconds in speed.communication.items()
            if seconds > 0
        ]
        if waits:
            yield f"communication in it: {', '.join(waits)}"
    run = plan.duration
    if plan.length is None:
        yield Text(f"hours: {plan.unknown['length']}, give --pairs N", "yellow")
    elif run is not None:
        hours, low, high = (time_text(3600 * h) for h in (run.hours, run.low, run.high))
        whole = f"{hours} (predicted, {low} to {high}), {run.gpu_hours:,.0f} GPU-hours"
        yield f"{run.steps:,} steps: {whole}"
        yield f"from {plan.length.source}"
    if plan.training.precomputed:
        took = run and run.reference_hours
        before = f"{time_text(3600 * took)} (in it)" if took else "time not known, give --pairs N"
        yield f"reference: once before the first step, {before}; it pays from the second epoch"
    yield from _evaluation(plan)


def _cost(plan: Plan, prices: Prices) -> Iterator[str]:
    """Yield what the steps cost, where the GPU has a price."""
    found = document.cost(plan, prices)
    if found is None or plan.gpu is None:
        return
    said = {key: f"{money(found[key])} {prices.currency}" for key in AMOUNTS if found[key]}
    if whole := said.get("run", ""):
        if "epoch" in said:
            whole += f"; {said['epoch']} an epoch, {said['thousand_pairs']} per 1,000 pairs"
        yield f"cost: {whole} (predicted), start and saves not in it"
    if found["kwh"] is not None:
        watts = prices.watts[plan.gpu.name]
        yield f"energy: {found['kwh']:,.0f} kWh (predicted, at your {watts:g} W for each GPU)"


def _evaluation(plan: Plan) -> Iterator[str | Text]:
    """Yield the cost of the evaluations on held-out rows."""
    found, run = plan.evaluations, plan.duration
    if found is not None and run is not None:
        rows = f"{found.evaluated:,} of {found.held_out:,} held-out rows"
        cost = f"{time_text(found.seconds)} each, {found.share(run):.1%} of the time, not in it"
        yield f"evaluation: {found.count} times {rows}, {cost}"
    elif "evaluation" in plan.unknown:
        yield Text(f"evaluation: {plan.unknown['evaluation']}", "yellow")


def _interval(submission: Submission, plan: Plan) -> str:
    """Return how often a checkpoint is saved."""
    if plan.footprint is not None and plan.footprint.every is not None:
        return f"every {plan.footprint.every} steps"
    if not submission.recipe.saves_by_time:
        return "once an epoch"
    if plan.save_interval is None:
        return f"for at most {submission.recipe.save_minutes:g} min of lost work"
    return f"every {time_text(plan.save_interval)}"


def _workspace(submission: Submission, plan: Plan) -> Iterator[str | Text]:
    """Yield the size of the checkpoints and the space that they need."""
    files = plan.footprint
    if files is None:
        yield submission.workspace
        return
    often, share = _interval(submission, plan), plan.save_share
    lost = plan.lost_seconds
    cut = "" if lost is None else f"; an interruption loses at most {time_text(lost)}"
    yield f"checkpoint of {bytes_text(files.checkpoint)} {often}{cut}"
    took = time_text(files.save_seconds)
    rate = WRITE_BYTES_PER_SECOND / 1e9
    grace = time_text(submission.grace_seconds)
    cost = "" if share is None else f", {share:.1%} of the time"
    if files.copied:
        yield f"a save stops training for {time_text(files.hold_seconds)} (assumed){cost}"
    blocks = "" if files.copied else cost
    yield f"a save takes {took} at {rate:g} GB/s (assumed){blocks}; SIGTERM leaves {grace}"
    kept = "all" if files.kept is None else str(files.kept)
    needed = "without limit" if files.needed is None else bytes_text(files.needed)
    models = "model"
    if plan.training is not None and plan.training.tuner != "full":
        yield MERGES[files.merges].format(size=bytes_text(files.model))
        models = "models" if files.merged else "model"
    yield f"{submission.workspace}: {needed} for the {models}, {kept} checkpoints and the next"


def _verdict(verdict: Verdict) -> Iterator[Text]:
    for colour, word, messages in (
        ("yellow", "warning", verdict.warnings),
        ("bold red", "refused", verdict.refusals),
    ):
        for message in messages:
            yield Text.assemble((f"{word}: ", colour), message)
