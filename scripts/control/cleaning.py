"""Contents of the workspace by run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ENDED = "succeeded"
"""State in progress.json of a run that does not resume."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """Files of one run on the workspace."""

    run: str
    state: str
    """Of progress.json: running, succeeded, failed; empty if it is not known."""
    bytes: Mapping[str, int]
    """By part, and `other`."""
    checkpoints: Sequence[Mapping[str, Any]]
    """`step`, `complete`, `bytes`; in the order of steps."""
    has_export: bool
    updated: float | None

    @property
    def total(self) -> int:
        """Return the bytes of all its files."""
        return sum(self.bytes.values())

    @property
    def may_resume(self) -> bool:
        """Return whether a later start would continue from a checkpoint."""
        return self.state != ENDED or not self.has_export

    @property
    def newest(self) -> int | None:
        """Return the step of the newest complete checkpoint."""
        complete = [each["step"] for each in self.checkpoints if each["complete"]]
        return max(complete, default=None)


def parse_inventory(found: Iterable[Mapping[str, Any]]) -> list[Held]:
    """Return the runs of an inventory (`inventory.py`)."""
    return [
        Held(
            run=each["run"],
            state=each["state"],
            bytes=each["bytes"],
            checkpoints=each["checkpoints"],
            has_export=each["export"],
            updated=each["updated"],
        )
        for each in found
    ]
