"""Memory that a launcher shares with its own training processes: steps, phases, a stop request.

It is also their heartbeat: each write notes its time, by the clock that all processes of a node
share (CLOCK_MONOTONIC).

A file of 64-bit integers, mapped by all of them, on the node's own disk. Reading or writing a cell
takes well under a microsecond, so that a training process can look for a request after every step
without a collective. Each cell has one writer: the launcher or one process.

A *boundary* is a place where a process looks for a request: the end of an optimizer step, of a
batch of an evaluation, and of a save. Boundaries have increasing numbers, the same in all processes
of a run. A process raises its ``boundary`` cell beyond the number at which it looks before it does.
So once the launcher has written a request and then read that cell, the process has not passed the
number read. It stops at its first boundary from ``stop_at`` on: the number that it had announced
may turn out not to exist, such as a further batch, for all processes alike.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

VARIABLE = "DPO_STEP_BOARD"
"""Environment variable of the training processes: path of the file; set by the launcher."""
_VISIBLE_SECONDS = 0.01
"""Time after which a write by one processor is visible to all others; it takes nanoseconds."""
_WORD = 8
_REQUESTED, _STOP_AT, _ENDS, _HEADER = range(4)
"""Cells of the launcher, and their number."""
_BOUNDARY, _PHASE, _STEP_MS, _SAVE_MS, _BEAT_MS, _LOADS, _PID, _WRITE_MS, _BATCH_MS, _TRAINED = (
    range(10)
)
_CELLS = 10
"""Cells of a process, and their number."""
_PER_STEP = 1 << 20
"""Numbers of boundaries per step: its end, the batches of an evaluation, its save."""


NOWHERE = -1
"""Value of ``stop_at`` that lets the processes continue: there is no agreement."""


class Phase(IntEnum):
    """Phase of a training process."""

    START = 0
    """Imports, data, weights: until the first step begins."""
    STEP = 1
    EVALUATION = 2
    SAVE = 3
    """From the end of a step that is saved to the seal of its checkpoint; after the last step, to
    the end of training."""
    STOPPED = 4
    """It has stopped at the boundary that the launcher set, and the checkpoint is complete."""
    REFERENCE = 5
    """The pass that computes the reference's log-probabilities, before the first step."""


def end_of_step(step: int) -> int:
    """Return the number of the boundary at the end of an optimizer step.

    >>> numbers = end_of_step(7), end_of_batch(7, 1), end_of_batch(7, 2), end_of_save(7)
    >>> sorted(numbers) == list(numbers) and numbers[-1] < end_of_step(8), step_of(numbers[-1])
    (True, 7)
    """
    return _PER_STEP * step


def end_of_batch(step: int, number: int) -> int:
    """Return the number of the boundary at the end of a batch of an evaluation after a step.

    ``number`` counts from 1; the end of the evaluation counts as one.
    """
    return end_of_step(step) + min(number, _PER_STEP - 2)


def end_of_save(step: int) -> int:
    """Return the number of the boundary after the checkpoint of a step is complete."""
    return end_of_step(step + 1) - 1


def step_of(boundary: int) -> int:
    """Return the number of steps that are done at a boundary."""
    return boundary // _PER_STEP


def name_of(boundary: int) -> str:
    """Return a boundary in words.

    >>> [name_of(each) for each in (end_of_step(7), end_of_batch(7, 3), end_of_save(7))]
    ['the end of step 7', 'batch 3 of the evaluation after step 7', 'the save of step 7']
    """
    step, part = divmod(boundary, _PER_STEP)
    if part == 0:
        return f"the end of step {step}"
    if boundary == end_of_save(step):
        return f"the save of step {step}"
    return f"batch {part} of the evaluation after step {step}"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The cells of one training process."""

    boundary: int
    """The boundary at which it next looks for a request; 0 while there is nothing new to save:
    before training, and in an evaluation before the first step of an attempt."""
    phase: Phase
    step_seconds: float
    """Duration of its last step; 0 before the first."""
    save_seconds: float
    """Duration of the last save of this attempt; 0 before the first."""
    beat: float = 0.0
    """Monotonic time of its last write; 0 before the first."""
    loads: bool = False
    """Whether it waits for its data loader."""
    pid: int = 0
    """Its process id, once it handles the signal that dumps its stacks; 0 before."""
    write_beat: float = 0.0
    """Monotonic time at which it began the part of a checkpoint that it is writing in the
    background, or last flushed some of it; 0 if it is not writing, also while it waits for the
    other ranks' parts."""
    batch_seconds: float = 0.0
    """Duration of the last batch of an evaluation; 0 before the first."""
    is_trained: bool = False

    @property
    def is_done(self) -> bool:
        """Return whether nothing is left to train: it has trained, or stopped on request."""
        return self.is_trained or self.phase == Phase.STOPPED


class StepBoard:
    """The mapped file. The launcher makes it, the training processes open it."""

    def __init__(self, path: Path) -> None:
        """Map an existing file."""
        self.path = path
        with path.open("r+b") as handle:
            self._cells = memoryview(mmap.mmap(handle.fileno(), 0)).cast("q")

    @classmethod
    def make(cls, path: Path, processes: int) -> StepBoard:
        """Create the file for the training processes of one node."""
        path.write_bytes(bytes(_WORD * (_HEADER + _CELLS * processes)))
        return cls(path)

    @classmethod
    def of_process(cls, env: Mapping[str, str]) -> StepBoard | None:
        """Open the launcher's file in a training process; None without a launcher."""
        path = env.get(VARIABLE, "")
        return cls(Path(path)) if path else None

    def request(self) -> None:
        """Ask the processes to wait at their next boundary until ``stop_at`` is set."""
        self._cells[_REQUESTED] = 1
        time.sleep(_VISIBLE_SECONDS)

    @property
    def is_requested(self) -> bool:
        """Return whether the launcher has asked the processes to stop."""
        return self._cells[_REQUESTED] != 0

    @property
    def stop_at(self) -> int:
        """Return the boundary to stop and save at, or ``NOWHERE``; 0 until it is known."""
        return self._cells[_STOP_AT]

    @stop_at.setter
    def stop_at(self, boundary: int) -> None:
        self._cells[_STOP_AT] = boundary

    @property
    def ends(self) -> bool:
        """Return whether the run is done with this stop; to be set before ``stop_at``."""
        return self._cells[_ENDS] != 0

    @ends.setter
    def ends(self, is_done: bool) -> None:
        self._cells[_ENDS] = is_done

    def read(self) -> list[Reading]:
        """Return the cells of all processes of this node, by local rank."""
        return [
            Reading(
                boundary=self._cells[first + _BOUNDARY],
                phase=Phase(self._cells[first + _PHASE]),
                step_seconds=self._cells[first + _STEP_MS] / 1e3,
                save_seconds=self._cells[first + _SAVE_MS] / 1e3,
                beat=self._cells[first + _BEAT_MS] / 1e3,
                loads=self._cells[first + _LOADS] != 0,
                pid=self._cells[first + _PID],
                write_beat=self._cells[first + _WRITE_MS] / 1e3,
                batch_seconds=self._cells[first + _BATCH_MS] / 1e3,
                is_trained=self._cells[first + _TRAINED] != 0,
            )
            for first in range(_HEADER, len(self._cells), _CELLS)
        ]

    def mark_write(self, local_rank: int, *, is_open: bool) -> None:
        """Note that a process writes a checkpoint in the background, or that it has ended that.

        It is noted at the beginning and after each flush. That is not a heartbeat: its training
        may hang meanwhile.
        """
        now = time.monotonic_ns() // 1_000_000 if is_open else 0
        self._cells[_HEADER + _CELLS * local_rank + _WRITE_MS] = now

    def write(
        self,
        local_rank: int,
        *,
        boundary: int | None = None,
        phase: Phase | None = None,
        step_seconds: float | None = None,
        save_seconds: float | None = None,
        batch_seconds: float | None = None,
        loads: bool | None = None,
        pid: int | None = None,
        is_trained: bool | None = None,
    ) -> None:
        """Write cells of one process and the time; None leaves a cell as it is."""
        given = {
            _BOUNDARY: boundary,
            _PHASE: phase,
            _STEP_MS: None if step_seconds is None else round(step_seconds * 1e3),
            _SAVE_MS: None if save_seconds is None else round(save_seconds * 1e3),
            _BATCH_MS: None if batch_seconds is None else round(batch_seconds * 1e3),
            _LOADS: loads,
            _PID: pid,
            _TRAINED: is_trained,
            _BEAT_MS: time.monotonic_ns() // 1_000_000,
        }
        for cell, value in given.items():
            if value is not None:
                self._cells[_HEADER + _CELLS * local_rank + cell] = int(value)
