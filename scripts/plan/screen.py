"""The plan on one screen: what runs, where, how it is laid out, what it needs, how long it takes.

Made for 80 columns; a part that cannot be predicted says why instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from launchers.config.recipe import Recipe
from launchers.config.settings import STAGES
from launchers.plan.plan import Plan
from scripts.plan import layout_lines, needs, ranking
from scripts.plan.quantity import GIB
from scripts.plan.release import Release
from scripts.plan.search import Found, Search
from scripts.plan.verdict import Verdict

_HEAD = "bold cyan"


def show(release: Release, plan: Plan, verdict: Verdict) -> RenderableType:
    """Return all sections."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style=_HEAD, no_wrap=True, width=9)
    grid.add_column(overflow="fold")
    sections = {
        "what": _what(release, plan),
        "where": _where(release, plan),
        "layout": _layout(plan),
        "memory": needs.memory(release, plan),
        "time": needs.time(plan),
        "workspace": needs.workspace(release, plan),
    }
    for name, lines in sections.items():
        shown = list(lines)
        for word, line in zip([name, *[""] * len(shown)], shown, strict=False):
            grid.add_row(word, line)
        if shown:
            grid.add_row()
    return Group(_title(release, plan, verdict), "", grid, *_verdict(verdict))


def proposed(search: Search, found: Sequence[Found]) -> RenderableType:
    """The nearest layouts that fit, under a plan that does not."""
    if not found:
        return Text(search.why_none(), "bold red")
    head = Text("\nnearest layouts that fit, by predicted speed:", "bold")
    more = Text("\nall layouts: --search", "dim")
    return Group(head, ranking.table(found), "", *ranking.lines(search, found[0]), more)


def _title(release: Release, plan: Plan, verdict: Verdict) -> Text:
    kind = release.recipe.arg("rlhf_type", "dpo").upper() if release.recipe.task == "rlhf" else ""
    word, colour = "accepted", "bold green"
    if plan.free_gib is None:
        word, colour = "accepted, memory unknown", "bold yellow"
    if verdict.refusals:
        word, colour = "refused", "bold red"
    name = release.recipe.model.rpartition("/")[2].partition("@")[0]
    how = f"{kind or release.recipe.task} ({_tuner(release.recipe)}) of {name}"
    return Text.assemble((release.run, "bold"), f": {how}: ", (word, colour))


def _tuner(recipe: Recipe) -> str:
    """Return what is trained: ``full``, or the kind of adapter."""
    if not recipe.trains_adapter:
        return "full"
    given = recipe.arg("tuner_type", "full")
    return "lora" if given == "full" else given  # not written, or overruled by an adapter to load


def _what(release: Release, plan: Plan) -> Iterator[str | Text]:
    recipe, shape, training = release.recipe, plan.job.shape, plan.training
    yield recipe.model
    if shape is None:
        yield Text(plan.job.shape_source, "yellow")
    else:
        active = f", {shape.active_parameters / 1e9:.2f} B active" if shape.is_moe else ""
        sizes = f"{shape.parameters / 1e9:.2f} B parameters{active}, {shape.layers} layers"
        yield f"{sizes} ({plan.job.shape_source})"
    more = len(recipe.dataset) - 1
    yield f"dataset {recipe.dataset[0]}" + (f" and {more} more" if more else "")
    if training is not None:
        pack = training.packing_length or training.max_length
        unit = f"packs of {pack:,} tokens" if training.packing else "pairs"
        yield (
            f"{training.global_batch_size} {unit} a step, {training.microbatches} microbatches "
            f"on {training.layout.dp} replicas"
        )
    given = [f"{word} {recipe.args[name]}" for name, word in _ARGS.items() if name in recipe.args]
    if given:
        yield ", ".join(given)


_ARGS = {
    **{"loss_type": "loss", "beta": "beta", "rpo_alpha": "rpo_alpha", "lr": "lr"},
    **{"learning_rate": "lr", "num_train_epochs": "epochs"},
    **{"train_iters": "steps", "max_steps": "steps"},
}
"""Flags that are shown, and how they are called."""


def _where(release: Release, plan: Plan) -> Iterator[str]:
    queue = f"queue {release.queue}" if release.queue else "no queue: starts at once"
    extras = (release.priority and f"priority {release.priority}", release.topology)
    yield ", ".join(filter(None, [queue, *extras]))
    card = plan.card.name if plan.card else "GPU (model not known)"
    gpus = f"{release.gpus_per_node} {card}" if release.gpus_per_node else "CPU only"
    fabric = f", {layout_lines.fabric(plan)}" if release.nodes > 1 else ""
    yield f"{release.nodes} nodes x {gpus}{fabric}"
    pod = release.pod
    limit = "memory without limit" if pod.memory is None else f"{pod.memory / GIB:.0f} GiB memory"
    shared = "" if pod.shared_memory is None else f" ({pod.shared_memory / GIB:.0f} of /dev/shm)"
    yield f"a pod: {pod.cpus:g} cores, {limit}{shared}"
    devices = [f"{count} {name}" for name, count in pod.devices.items()]
    if devices:
        yield f"       {', '.join(devices)}"
    stages = ", ".join(stage for stage in STAGES if stage not in release.skips)
    skipped = "".join(f", {stage} skipped" for stage in STAGES if stage in release.skips)
    yield f"stages {stages or 'none'} ({release.placement}{skipped})"


def _layout(plan: Plan) -> Iterator[str | Text]:
    if plan.training is None:
        yield Text(plan.unknown["training"], "yellow")
        return
    yield from layout_lines.lines(plan, plan.training)


def _verdict(verdict: Verdict) -> Iterator[Text]:
    for colour, word, messages in (
        ("yellow", "warning", verdict.warnings),
        ("bold red", "refused", verdict.refusals),
    ):
        for message in messages:
            yield Text.assemble((f"{word}: ", colour), message)
