"""Follow a run: print each new state until the one that was waited for."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from rich.console import Console
from rich.text import Text

from scripts.observe.command import Exit
from scripts.observe.view import View
from scripts.start.view import start
from scripts.why.command import COLOURS, EXITS
from scripts.why.reasons import Kind, Reason, explain

POLL_SECONDS = 3.0
STEPPED = frozenset({"training", "stalled"})
"""States of a run that has made a step."""


UNREADABLE = frozenset({"no-cluster", "no-permission", "not-authenticated"})
"""States that no later answer changes: the context, a permission or the login is missing."""


class Until(StrEnum):
    """State that a submission waits for."""

    SUBMITTED = "submitted"
    RUNNING = "running"
    FIRST_STEP = "first-step"
    DONE = "done"


def is_reached(view: View, first: Reason, until: Until) -> bool:
    """Return whether the wait is over: it is reached, or it never will be.

    The JobSet restarts a failing run, so the wait continues; a failed run ends it.
    """
    is_over = first.kind in (Kind.FAILED, Kind.DONE) or first.id in UNREADABLE
    if is_over or until is Until.SUBMITTED:
        return True
    if until is Until.RUNNING:
        # All ranks are Running some seconds before they have met at the start barrier.
        return view.is_running and first.kind is not Kind.WAITING
    return until is Until.FIRST_STEP and first.id in STEPPED


def exit_code(kind: Kind, until: Until) -> Exit:
    """Return the exit code of a wait that ended in a state.

    A submission that waits for nothing succeeds unless the run has failed: such as in a queue that
    does not exist.

    >>> exit_code(Kind.WAITING, Until.SUBMITTED), exit_code(Kind.FAILED, Until.SUBMITTED)
    (<Exit.OK: 0>, <Exit.FAILED: 1>)
    """
    if until is Until.SUBMITTED and kind is not Kind.FAILED:
        return Exit.OK
    return EXITS[kind]


Look = Callable[[], tuple[View, Sequence[str]]]
"""Reads the run; returns it with what limits the reading (`observe.command.notes`)."""


def follow(
    look: Look,
    until: Until,
    console: Console,
    report: Callable[[View, Reason], None] = lambda view, first: None,
    wait: Callable[[], float] = lambda: POLL_SECONDS,
) -> int:
    """Print each new state of a run with the time; return the exit code of the last.

    ``report`` gets each reading; ``wait`` returns the seconds until the next.
    """
    before, said = "", set[str]()
    while True:
        view, notes = look()
        first = explain(view)[0]
        if first.id != before:
            _say(first, console)
            if begin := start(view, first):
                console.print(f"          {begin.sentence}", soft_wrap=True, highlight=False)
        before = first.id
        for note in (each for each in notes if each not in said):
            # Such as a refused exec, without which the first step is not seen.
            console.print(Text(f"          note: {note}", style="dim"), soft_wrap=True)
            said.add(note)
        report(view, first)
        if is_reached(view, first, until):
            return int(exit_code(first.kind, until))
        time.sleep(wait())


def _say(reason: Reason, console: Console) -> None:
    now = datetime.now(tz=UTC).strftime("%H:%M:%SZ")
    line = Text.assemble(
        f"{now} ", (reason.kind.value, COLOURS[reason.kind]), f" {reason.sentence}"
    )
    console.print(line, soft_wrap=True, highlight=False)
    if reason.kind in (Kind.WAITING, Kind.FAILED, Kind.FAILING):
        console.print(Text(f"          -> {reason.remedy}"), soft_wrap=True, highlight=False)
