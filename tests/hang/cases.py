"""Injected hangs: which fault, in which rank, at which step; all derived from a seed."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass

from launchers.exits import Exit

NODES, PER_NODE = 2, 2
RANKS = NODES * PER_NODE
KINDS = {
    "stop": "SIGSTOP of a rank, at any time of a step",
    "skip": "a rank skips a collective and waits in the next one, of another group",
    "absent": "a rank computes on without entering a collective",
    "loader": "the dataset of a rank blocks, in its process or in a loader's worker",
    "save": "a rank blocks while it writes its part of a checkpoint",
    "launcher": "SIGSTOP of a launcher; its ranks go on",
    "write": "a rank blocks while it writes a checkpoint in the background; all train on",
    "torchrun": "SIGSTOP of a torchrun; its ranks train to the end",
    "exit": "a rank exits with 0 in mid-training, and its torchrun waits for the others",
    "first": "a rank skips a collective of the first step",
    "none": "no fault: a rank is slow, and nothing hangs",
}
"""All faults."""
_MANY = ("stop", "skip", "loader", "save")
MIX = (*_MANY, "launcher", *_MANY, "absent")
"""Order in which the seeds go through the faults."""
MORE = {"none": 0, "torchrun": 3, "write": 6, "first": 8, "exit": 9}
"""Runs that are added to the seeds: each to those that end with this digit."""


@dataclass(frozen=True, kw_only=True)
class Case:
    seed: int
    kind: str
    rank: int
    """Global rank; the launcher or the torchrun of its node for ``launcher`` and ``torchrun``."""
    step: int
    delay: float
    """Seconds from the beginning of the step to the signal."""
    workers: int
    """Workers of each rank's data loader."""

    @property
    def node(self) -> int:
        return self.rank // PER_NODE

    @property
    def ends(self) -> list[int]:
        """Return the exit codes of the launchers after a hang that was attributed right."""
        own = Exit.INCOMPLETE if self.kind == "exit" else Exit.HANG
        return [int(own if node == self.node else Exit.PEER) for node in range(NODES)]

    @classmethod
    def of(cls, seed: int, kind: str = "") -> Case:
        """Derive a case from its seed; its fault, too, unless one is given.

        >>> Case.of(0).kind, Case.of(4).kind, Case.of(13).kind, Case.of(0, "none").kind
        ('stop', 'launcher', 'save', 'none')
        """
        chance = random.Random(seed)
        return cls(
            seed=seed,
            kind=kind or MIX[seed % len(MIX)],
            rank=chance.randrange(RANKS),
            step=1 if kind == "first" else chance.randint(3, 9),
            delay=chance.uniform(0, 0.1),
            workers=chance.choice((0, 1)),
        )

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Case:
        return cls(**json.loads(text))
