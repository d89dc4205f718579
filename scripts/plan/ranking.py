"""The result of a search: a table of layouts, and the values lines of the best one."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from launchers.plan.training_job import Training
from launchers.units import count_text
from scripts.plan.search import Found, Search
from scripts.plan.units import time_text

SIZES = ("tp", "pp", "cp", "ep", "etp", "dp")
SHORT = {"alltoall": "a2a", "allgather": "gather"}
"""Dispatchers, abbreviated in the table; the values lines have them in full."""


def show(search: Search, found: Sequence[Found], seconds: float) -> RenderableType:
    """Return the result of a search."""
    job = search.job
    gang = f"{count_text(job.nodes, 'node')} x {job.gpus_per_node} x {search.gpu.name}"
    title = Text(f"{gang}: {len(search.layouts()):,} layouts in {seconds:.1f} s")
    if not found:
        return Group(title, Text(search.why_none(), "bold red"))
    speed = found[0].speed
    less, more = speed.low / speed.step_seconds - 1, speed.high / speed.step_seconds - 1
    band = Text(f"all numbers are predicted, a step within {less:+.0%} to {more:+.0%}", "dim")
    left = (Text.assemble(("refused: ", "bold red"), text) for text in search.left(found[0]))
    return Group(title, band, "", table(found), "", *lines(search, found[0]), *left)


def table(found: Sequence[Found]) -> Table:
    """Return a table with a row per layout; all numbers are predicted."""
    shown = Table(box=None, padding=(0, 1, 0, 0), header_style="bold cyan")
    for name in ("", *SIZES):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("experts", no_wrap=True)
    shown.add_column("recompute", no_wrap=True)
    shown.add_column("optimizer", no_wrap=True)
    for name in ("GiB", "step", "tok/s/GPU", "MFU"):
        shown.add_column(name, justify="right", no_wrap=True)
    for rank, each in enumerate(found, 1):
        speed = each.speed
        shown.add_row(
            str(rank),
            *(str(getattr(each.training.layout, size)) for size in SIZES),
            SHORT.get(each.training.dispatcher, each.training.dispatcher),
            recomputed(each.training),
            each.optimizer,
            f"{each.memory.total:.1f}",
            time_text(speed.step_seconds),
            f"{speed.tokens_per_second_per_gpu:,.0f}",
            f"{speed.mfu:.0%}",
        )
    return shown


def recomputed(training: Training) -> str:
    """Return the recomputation of a job in words.

    >>> from launchers.plan.layout import Layout
    >>> one = Layout(nodes=1, gpus_per_node=1)
    >>> recomputed(Training(layout=one, recompute="full", recompute_method="block",
    ...                     recompute_num_layers=18))
    '18 layers'
    """
    some = training.recompute == "full" and training.recompute_method == "block"
    return f"{training.recompute_num_layers} layers" if some else training.recompute


def lines(search: Search, found: Found) -> Iterator[Text]:
    """Yield a values file to add after the release's; a null drops a flag of an earlier file."""
    if not (search.gang or found.changes):
        yield Text("the first is what the values say", "green")
        return
    yield Text("for the first write:", "bold")
    for name, value in search.gang.items():
        yield Text(f"{name}: {value}")
    if found.changes:
        yield Text("recipe:\n  args:")
    for flag, given in found.changes.items():
        yield Text(f"    {flag}: {'null' if given is None else given}")
