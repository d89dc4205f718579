"""Runs that a workspace holds, as dataclasses. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Held:
    """Files of one run on the workspace."""

    run: str
    state: str
    """Of progress.json: running, succeeded, failed; empty if it is not known; `removing` for the
    rest of a removal that was interrupted."""
    bytes: Mapping[str, int]
    """By part, and `other`."""
    checkpoints: Sequence[Mapping[str, Any]]
    """`step`, `complete`, `bytes`; in the order of steps."""
    newest: int | None
    """Step of the newest complete checkpoint."""
    export: bool
    may_resume: bool
    """Whether a later start would continue from a checkpoint."""
    updated: float | None
    unread: str
    """The first error of a file that could not be read; empty without one."""
    kept: Sequence[Mapping[str, Any]] = ()
    """`path` and `bytes` of what a user has edited, or another run has left there."""

    @property
    def total(self) -> int:
        """Return the bytes of all its files."""
        return sum(self.bytes.values())


def parse_inventory(found: Iterable[Mapping[str, Any]]) -> list[Held]:
    """Return the runs of an inventory (`launchers/state/contents.py`)."""
    return [Held(**each) for each in found]
