"""One training process at its boundaries: it checks whether the launcher requests a stop.

All processes must stop at the same boundary, or those that continue wait in a collective for those
that have stopped. They agree without one: the launchers ask every process for its next boundary and
set the highest (``stop/agreement.py``). A process that sees the request waits at its boundary
for that number, a few milliseconds, and then continues up to it. While nothing is requested a step
costs two accesses to mapped memory.
"""

import time
from collections.abc import Callable, Mapping

from launchers.stop import finished
from launchers.stop.planned_kill import kill_once, kill_step
from launchers.stop.save_timer import SaveTimer
from launchers.storage import run_lease
from launchers.system.step_board import Phase, StepBoard, end_of_batch, end_of_save, end_of_step

POLL_SECONDS = 0.002


class Boundary:
    """The part of one training process; without a launcher it never stops."""

    def __init__(self, env: Mapping[str, str], agree: Callable[[int], int] = int) -> None:
        """Open the launcher's board; ``LOCAL_RANK`` is torchrun's.

        ``agree`` returns rank 0's number on all ranks; by default that of this process.
        """
        self._board = StepBoard.of_process(env)
        self._local = int(env.get("LOCAL_RANK", "0"))
        self._began = time.monotonic()
        self._saved = 0.0
        """Seconds for which the last save has stopped training; 0 before the first."""
        self._newest = 0
        """Step of the newest checkpoint of this process."""
        self._batches = 0
        """Looks in evaluations after the last step."""
        self._timer = SaveTimer(env, agree)
        self._env, self._kill_step = env, kill_step(env)

    def begin(self, step: int) -> None:
        """Note that training begins after ``step`` completed steps."""
        self._timer.begin(step)
        self._newest = step
        self._next(end_of_step(step + 1), Phase.STEP)

    def is_save_due(self, step: int, *, write_seconds: float = 0.0) -> bool:
        """Return whether to save after this step by time; sometimes a collective of all ranks.

        ``write_seconds``: what the last save took in the background.
        """
        return self._timer.is_due(step, hold=self._saved, write=write_seconds)

    def end_step(
        self,
        step: int,
        *,
        saves: bool,
        is_last: bool,
        evaluates: bool = False,
        write_seconds: float = 0.0,
    ) -> bool:
        """Return whether to save and stop after this step; it has just ended.

        Args:
            step: the number of completed steps.
            saves: whether the trainer saves it anyway.
            is_last: whether training ends with it; then it ends by itself.
            evaluates: whether the trainer evaluates first; it may still leave that out.
            write_seconds: what a save takes in the background, including the one in progress.
        """
        seconds = time.monotonic() - self._began
        if step == self._kill_step:
            kill_once(self._env, step)
        self._batches = 0
        boundary, phase = _after(step, saves=saves, is_last=is_last)
        if evaluates:
            boundary, phase = end_of_batch(step, 1), Phase.EVALUATION
        self._next(
            boundary,
            phase,
            step_seconds=seconds,
            save_seconds=self._saved + write_seconds if self._saved else None,
        )
        stops = not is_last and self._stops_at(end_of_step(step))
        return _checked(stops, saves=(saves or is_last) and not evaluates)

    def end_save(self, step: int, *, stops: bool) -> bool:
        """Return whether to stop now that the checkpoint of ``step``, not the last, is complete."""
        self._saved = time.monotonic() - self._began
        self._newest = step
        self._timer.begin(step)
        self._next(end_of_step(step + 1), Phase.STEP, save_seconds=self._saved)
        return stops or self._stops_at(end_of_save(step))

    def await_write(self) -> None:
        """Note that this process waits until its last checkpoint is complete, and then stops."""
        if self._board is not None:
            self._board.write(self._local, phase=Phase.SAVE)

    def begin_evaluation(self, step: int) -> None:
        """Note that an evaluation begins after ``step`` completed steps."""
        following = end_of_batch(step, self._batches + 1) if step > self._newest else 0
        self._next(following, Phase.EVALUATION)

    def end_batch(self, step: int) -> bool:
        """Return whether to save and stop after this batch of an evaluation; it has just ended.

        The state is that at the end of the step, so nothing is lost but the evaluation. If the step
        is saved already, a request is declined, and the launcher ends training at once.
        """
        self._batches += 1
        seconds = time.monotonic() - self._began
        following = end_of_batch(step, self._batches + 1) if step > self._newest else 0
        self._next(following, Phase.EVALUATION, batch_seconds=seconds)
        return _checked(following > 0 and self._stops_at(end_of_batch(step, self._batches)))

    def end_evaluation(self, step: int, *, saves: bool, is_last: bool) -> bool:
        """Return whether to save and stop now that an evaluation has ended."""
        self._batches += 1
        self._next(*_after(step, saves=saves, is_last=is_last))
        stops = step > self._newest and self._stops_at(end_of_batch(step, self._batches))
        return _checked(stops, saves=saves or is_last)

    def stop(self, step: int) -> None:
        """Report that this process has stopped; the checkpoint of ``step`` is complete."""
        if self._board is not None:
            self._board.write(self._local, boundary=end_of_save(step), phase=Phase.STOPPED)

    def _next(
        self,
        boundary: int,
        phase: Phase,
        *,
        step_seconds: float | None = None,
        save_seconds: float | None = None,
        batch_seconds: float | None = None,
    ) -> None:
        """Name the next boundary; what follows starts now."""
        self._began = time.monotonic()
        if self._board is not None:
            self._board.write(
                self._local,
                boundary=boundary,
                phase=phase,
                step_seconds=step_seconds,
                save_seconds=save_seconds,
                batch_seconds=batch_seconds,
            )

    def _stops_at(self, boundary: int) -> bool:
        """Look for a request, after ``_next``; wait until it says where to stop.

        The boundary to stop at may not exist, as the batch after the last one of an evaluation;
        then this one, the first beyond it, counts.
        """
        board = self._board
        if board is None or not board.is_requested:
            return False
        while board.stop_at == 0:
            time.sleep(POLL_SECONDS)
        stops = 0 < board.stop_at <= boundary
        if stops:
            board.write(self._local, phase=Phase.SAVE)
            if board.ends:
                finished.note_ending()
        return stops


def _checked(stops: bool, *, saves: bool = False) -> bool:
    """Return ``stops``; if a save follows, verify first that the launcher still leads the run."""
    if stops or saves:
        run_lease.check()
    return stops


def _after(step: int, *, saves: bool, is_last: bool) -> tuple[int, Phase]:
    """Return the boundary and phase after a step and its evaluation."""
    boundary = end_of_save(step) if saves and not is_last else end_of_step(step + 1)
    return boundary, Phase.SAVE if saves or is_last else Phase.STEP
