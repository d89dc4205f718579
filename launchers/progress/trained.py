"""Record of a training that has ended by itself: ``attempts/<n>/trained.json``.

torchrun's exit code 0 does not show that all steps were done: a plugin may end the processes with
it in mid-training. Therefore rank 0's process writes the record where the trainer ends, and the
launcher exports nothing without it. On the other nodes the step board shows it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from launchers.system.atomic_file import read_object, replace

NAME = "trained.json"
FINISHED = "finished"
"""Reason of a training that has done all its steps."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """End of a training whose processes have ended by themselves."""

    step: int
    """The number of completed steps."""
    planned: int
    reason: str
    """``FINISHED``, or why it has ended early."""

    @classmethod
    def of(cls, step: int, planned: int, *, is_stopped: bool = False) -> Trained:
        """Name the reason.

        ``is_stopped``: a callback of the trainer has ended it.

        >>> [Trained.of(step, 9, is_stopped=True).reason for step in (9, 7)]
        ['finished', 'early stop']
        """
        early = "early stop" if is_stopped else "no more data"
        return cls(step=step, planned=planned, reason=FINISHED if step >= planned else early)

    def write(self, folder: Path) -> None:
        """Write it into the folder of an attempt."""
        replace(folder / NAME, json.dumps(asdict(self)) + "\n")


def read(folder: Path) -> Trained | None:
    """Read the record of an attempt; None without one."""
    found = read_object(folder / NAME)
    try:
        return Trained(
            step=int(found["step"]), planned=int(found["planned"]), reason=str(found["reason"])
        )
    except (KeyError, TypeError, ValueError):
        return None
