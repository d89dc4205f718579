"""`megatron-dpo why`: print why a run waits, fails or has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.observe.command import Exit, Target, notes, observe, place
from scripts.observe.source import Reading
from scripts.observe.view import View
from scripts.start.forecast import Start
from scripts.start.view import start
from scripts.terminal import SCHEMA, print_json
from scripts.why.reasons import Kind, Reason, explain

COLOURS = {
    Kind.WAITING: "yellow", Kind.FAILING: "red", Kind.FAILED: "bold red", Kind.RUNNING: "green",
    Kind.DONE: "green", Kind.UNKNOWN: "magenta",
}  # fmt: skip
EXITS = {
    Kind.WAITING: Exit.WAITING, Kind.FAILING: Exit.FAILED, Kind.FAILED: Exit.FAILED,
    Kind.RUNNING: Exit.OK, Kind.DONE: Exit.OK, Kind.UNKNOWN: Exit.UNKNOWN,
}  # fmt: skip
INDENT = 7
"""Columns of the longest kind."""


def run(target: Target, console: Console, *, as_data: bool = False) -> int:
    """Print the reasons for a run's state; return the exit code of the first.

    Raises:
        Problem: the mounted folder can't be read.
    """
    view, reading, reasons, begin = seen(target)
    if as_data:
        print_json(console, document(view, reading, reasons, begin))
    else:
        show(console, view, reading, reasons, begin)
    return int(EXITS[reasons[0].kind])


def seen(target: Target) -> tuple[View, Reading, Sequence[Reason], Start | None]:
    """Return a run, the reasons for its state, and when it starts; the arguments of `document`."""
    view, reading = observe(target, target.reach(), reader=False)
    reasons = explain(view)
    return view, reading, reasons, start(view, reasons[0])


def document(
    view: View, reading: Reading, reasons: Sequence[Reason], begin: Start | None
) -> Mapping[str, Any]:
    """Return the reasons, and when the run starts, as JSON data."""
    return {
        "schema": SCHEMA,
        "context": view.snapshot.context,
        "namespace": view.namespace,
        "run": view.run,
        "state": reasons[0].kind.value,
        "reasons": [
            {
                "id": each.id,
                "kind": each.kind.value,
                "sentence": each.sentence,
                "remedy": each.remedy,
                "commands": list(each.commands),
            }
            for each in reasons
        ],
        "start": asdict(begin) if begin else None,
        "workspace": reading.how,
        "notes": notes(view, reading),
    }


def show(
    console: Console,
    view: View,
    reading: Reading,
    reasons: Sequence[Reason],
    begin: Start | None = None,
) -> None:
    """Print each reason with its remedy, when the run starts, then what limits the report."""
    where = place(view.namespace, view.snapshot.context, "in ")
    console.print(Text(f"run {view.run} {where}", style="bold"))
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=INDENT)
    grid.add_column(overflow="fold")
    for each in reasons:
        grid.add_row(Text(each.kind.value, style=COLOURS[each.kind]), Text(each.sentence))
        grid.add_row("", Text(f"-> {each.remedy}"))
    if begin:
        grid.add_row(Text("start"), Text(begin.sentence))
    for note in notes(view, reading):
        grid.add_row(Text("note", style="dim"), Text(note, style="dim"))
    console.print(grid)
