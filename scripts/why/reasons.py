"""Join the table of states with their conditions: the ordered reasons of one view."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

from launchers.yaml_file import read_yaml
from scripts.observe.view import View
from scripts.problem import Problem, UnknownState
from scripts.why import (
    absence,
    admission,
    ending,
    holding,
    pods,
    queueing,
    recorded,
    refusal,
    running,
)
from scripts.why.words import COMMAND, Condition, addressed, chosen, filled

TABLE = Path(__file__).parent / "states.yaml"
CONDITIONS: Mapping[str, Condition] = {
    **recorded.CONDITIONS,
    **absence.CONDITIONS,
    **ending.CONDITIONS,
    **holding.CONDITIONS,
    **queueing.CONDITIONS,
    **admission.CONDITIONS,
    **refusal.CONDITIONS,
    **pods.CONDITIONS,
    **running.CONDITIONS,
}


class Kind(StrEnum):
    """Meaning of a state for the run."""

    WAITING = "waiting"
    FAILING = "failing"
    """It is, or will be, tried again."""
    FAILED = "failed"
    """It stays so until a person acts."""
    RUNNING = "running"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class State:
    """A row of the table."""

    id: str
    kind: Kind
    sentence: str
    remedy: str
    fallback: bool = False
    sure: bool = False
    said: Mapping[str, str] = field(default_factory=dict)
    """Remedies by patterns of the cause, in place of ``remedy``."""

    def remedy_of(self, cause: object) -> str:
        """Return the remedy of the first pattern that a cause has, or the row's own."""
        fitting = (r for pattern, r in self.said.items() if re.search(pattern, str(cause)))
        return next(fitting, self.remedy)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A state that a run is in."""

    id: str
    kind: Kind
    sentence: str
    remedy: str
    commands: tuple[str, ...] = ()
    """Those of the remedy, as a shell reads them; only the table's own, not a pod's message."""
    sure: bool = False
    """True if no person has to judge the command first."""


@cache
def states() -> tuple[State, ...]:
    """Return the table, in the order of the report."""
    found = read_yaml(TABLE)
    return tuple(State(**{**row, "kind": Kind(row["kind"])}) for row in found)


def explain(view: View) -> list[Reason]:
    """Return the states that a run is in, causes before consequences; at least one."""
    found: list[Reason] = []
    for state in states():
        if state.fallback and found:
            continue
        facts = CONDITIONS[state.id](view)
        if facts is None:
            continue
        known = {"run": view.run, "namespace": view.namespace, "queue": view.queue, **facts}
        remedy = chosen(state.remedy_of(facts.get("cause")), known)
        found.append(
            Reason(
                id=state.id,
                kind=state.kind,
                sentence=state.sentence.format(**known),
                remedy=addressed(filled(remedy, known), view),
                commands=_commands(remedy, known, view),
                sure=state.sure,
            )
        )
        if state.id in absence.CONDITIONS or state.id in recorded.CONDITIONS:
            break  # nothing else could be read
    return found


def _commands(remedy: str, known: Mapping[str, object], view: View) -> tuple[str, ...]:
    """Return the commands of a remedy without those that lack a word, such as FILE."""
    found = (filled(match[0], known) for match in COMMAND.finditer(remedy))
    whole = (each for each in found if not re.search(r"\b[A-Z]{3,}\b", each))
    return tuple(addressed(each, view).strip("`") for each in whole)


def no_run(view: View) -> str:
    """Return why there is no run, as `why` says it, with the nearest names."""
    first = explain(view)[0]
    return f"{first.sentence} {first.remedy}"


def missing_run(view: View) -> Problem:
    """Return the failure of a verb that needs the run, with the exit code of `why`."""
    is_unknown = explain(view)[0].kind is Kind.UNKNOWN
    return (UnknownState if is_unknown else Problem)(no_run(view))
