"""State of one training process when it was found silent.

Sent to rank 0, and a row of ``hang.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from launchers.hang.flight_recorder import Group

STOPPED, BLOCKED, ENDED, REAPED = ("T", "t"), "D", ("Z", "X"), "X"
"""States of proc(5): stopped by a signal or a debugger, uninterruptible sleep, ended; ended, and
torchrun, its parent, has read its exit code."""
_COLLECTIVES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
)
_MAY_WAIT = (*_COLLECTIVES, "torch/autograd/graph.py")
"""Files whose functions wait for other ranks; the backward pass does so where gradients are reduced
during it."""
_LOADER = "torch/utils/data/dataloader.py"
_NEAR = 3
"""Innermost frames that are looked at: wrappers of torch stand between."""
FRAMES, FRAME_LENGTH, GROUPS = 32, 256, 64
"""What a message has of a process, whose launcher sends it with those of all its processes in one
line (``gang/protocol.py: MAX_MESSAGE_BYTES``): innermost frames, characters of each, and groups,
those with a collective in progress first. Megatron has about 20 groups a process."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """The evidence of one training process."""

    rank: int
    """Its global rank."""
    node: int
    """The rank of its launcher."""
    boundary: int
    phase: str
    age: float
    """Seconds since its last heartbeat."""
    loads: bool = False
    writes: float = 0.0
    """Seconds since it began the part of a checkpoint that it writes in the background, or last
    flushed some of it; 0 if it does not write."""
    is_done: bool = False
    """Whether nothing was left for it to train."""
    state: str = ""
    """Its state in ``/proc/<pid>/stat``; empty if unknown."""
    frames: tuple[str, ...] = ()
    """Its main thread's stack as ``file:line function``, the innermost first; empty if unknown."""
    groups: tuple[Group, ...] = ()
    """From the flight recorder; empty without NCCL."""

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal or a debugger has stopped it."""
        return self.state in STOPPED

    @property
    def is_blocked(self) -> bool:
        """Return whether it waits in the kernel and cannot be interrupted."""
        return self.state == BLOCKED

    @property
    def has_ended(self) -> bool:
        """Return whether it has ended while torchrun runs."""
        return self.state in ENDED

    @property
    def has_exited(self) -> bool:
        """Return whether it has ended in mid-training with the exit code 0.

        After another code torchrun ends the others of its node, kills them after 30 s, and ends
        once the kernel has ended them. After 0 it waits for the others, on other nodes for up to
        300 s (``LocalElasticAgent._exit_barrier``).
        """
        return self.state == REAPED and not self.is_done

    @property
    def is_loading(self) -> bool:
        """Return whether it waits for its data loader."""
        return self.loads or any(_LOADER in frame for frame in self.frames[:_NEAR])

    @property
    def pending(self) -> tuple[Group, ...]:
        """Return the groups with a collective that it has enqueued and that is not completed."""
        return tuple(group for group in self.groups if group.enqueued > group.completed)

    @property
    def waits(self) -> bool | None:
        """Return whether it waits for other ranks; None if the evidence does not show it."""
        if self.is_loading:
            return False
        if any(file in frame for frame in self.frames[:_NEAR] for file in _MAY_WAIT):
            return True
        if self.groups:
            return bool(self.pending)
        return False if self.frames else None

    @property
    def call(self) -> str:
        """Return the frame that called a collective of torch; empty if there is none."""
        for frame in self.frames:
            if "torch/distributed/" not in frame:
                return frame
        return ""

    def to_wire(self) -> dict[str, Any]:
        """Build its part of a message, at most 40 kB whatever the size of the gang."""
        pending = sorted(self.groups, key=lambda group: group.enqueued <= group.completed)
        frames = tuple(frame[-FRAME_LENGTH:] for frame in self.frames[:FRAMES])
        return asdict(replace(self, frames=frames, groups=tuple(pending[:GROUPS])))

    @classmethod
    def from_wire(cls, fields: Mapping[str, Any]) -> Worker:
        """Parse its part of a message of the same launcher.

        >>> one = Worker(rank=3, node=1, boundary=8, phase="step", age=61.0, frames=("a:1 f",),
        ...              groups=(Group(name="0", ranks=(0, 1), enqueued=2, completed=1),))
        >>> import json
        >>> Worker.from_wire(json.loads(json.dumps(one.to_wire()))) == one
        True
        """
        groups = tuple(Group(**group) for group in fields["groups"])
        return cls(**{**fields, "frames": tuple(fields["frames"]), "groups": groups})
