"""The faults, as data: ``catalogue/<level>.yaml``; an unknown key is an error."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from launchers.exits import Exit, FailureClass
from launchers.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "catalogue"
LEVELS = ("process", "cluster", "gpu")
Outcome = Literal["unaffected", "resumed", "failed", "endless"]
"""The run ends well without a restart, ends well after restarts, ends without success, or does not
end by itself: expected only where nothing that could end it exists yet."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    outcome: Outcome
    code: Exit | None = None
    """Exit code of the rank that ended first; None when the run is unaffected."""
    failure_class: FailureClass | Literal[""] | None = None
    """In the same message; empty without a message, or None when any will do."""
    id: str = ""
    """Id in its termination message; empty when any will do."""
    restarts: Literal["none", "free", "counted", "all"] = "none"
    """``all``: counted restarts until no more are allowed."""
    logged: str = ""
    """A text that the log of a pod must contain, such as the id of a warning."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    name: str
    level: str
    group: str
    """Row of the table that it belongs to."""
    inject: Mapping[str, Any]
    """By level: ``case.py``, node id of a test under ``test``, or ``tests/bench/launcher``."""
    expect: Expected
    seconds: float = 480.0
    """Deadline of the whole run: it finds what never ends, on any machine."""
    nodes: int = 2
    ranks: int = 1
    """Fewest ranks that can have it."""
    needs: tuple[str, ...] = ()
    """``root``: mounts of its own."""
    quick: bool = False
    """True if ``make test`` runs it: the level's ``quick`` names it."""
    spread: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values to choose from by seed, by the key in ``inject.train``."""


def load(level: str) -> list[Fault]:
    """Read the faults of a level."""
    groups = read_yaml(FOLDER / f"{level}.yaml")
    quick = set(groups.pop("quick", ()))
    found = [
        _fault(level, group, name, entry, quick=name in quick)
        for group, entries in groups.items()
        for name, entry in entries.items()
    ]
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{level}.yaml: {', '.join(sorted(twice))} twice")
    if unknown := quick - set(names):
        raise ValueError(f"{level}.yaml: quick names {', '.join(sorted(unknown))}, no fault of it")
    return found


def _fault(level: str, group: str, name: str, entry: dict[str, Any], *, quick: bool) -> Fault:
    expect = dict(entry.pop("expect"))
    made = Expected(
        outcome=_one_of(expect.pop("outcome"), get_args(Outcome), name),
        code=Exit[expect.pop("code")] if "code" in expect else None,
        failure_class=_class(expect.pop("class", None)),
        **expect,
    )
    spread = {key: tuple(values) for key, values in entry.pop("spread", {}).items()}
    needs = tuple(entry.pop("needs", ()))
    given = {**entry, "spread": spread, "needs": needs, "quick": quick}
    return Fault(name=name, level=level, group=group, expect=made, **given)


def _class(text: str | None) -> FailureClass | Literal[""] | None:
    if text is None:
        return None
    return FailureClass(text) if text else ""


def _one_of(value: Any, allowed: tuple[Any, ...], name: str) -> Any:
    if value not in allowed:
        raise ValueError(f"{name}: {value!r}; use one of {', '.join(map(str, allowed))}")
    return value
