"""Save and stop on SIGTERM: what this node's launcher does while torchrun runs.

torchrun forwards SIGTERM to its workers and kills them after 30 s, so SIGTERM is blocked in all of
them (``sigterm.py``): the training processes learn of the request from the step board, save with
the trainer's own function, and exit (``stop``). Then the launcher ends torchrun.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.stop.agreement import Answer, StopAgreement, seconds_to_save
from launchers.storage.checkpoint import read_checkpoint
from launchers.system import lookup
from launchers.system.process import Child, Stopped
from launchers.system.step_board import NOWHERE, VARIABLE, Phase, StepBoard, step_of

LOOKUP_SECONDS = 5.0
"""Time for a question to the workspace within the grace period."""
AGREEMENT_SECONDS = 15.0
"""Time in which all launchers answer; one that is frozen does not, and nothing can be saved."""


class StopOnRequest:
    """The step board of this node's training processes, and the gang's agreement to stop."""

    def __init__(self, board: StepBoard, agreement: StopAgreement, grace_seconds: float) -> None:
        """Connect both."""
        self.board = board
        """The memory shared with the training processes."""
        self.must_step = False
        """Whether a budget ends the run only after a step: its checkpoint cannot be exported."""
        self._agreement = agreement
        self._seconds = seconds_to_save(grace_seconds)
        agreement.attach(self._hold, self._release)

    @property
    def env(self) -> Mapping[str, str]:
        """Return the variable by which the training processes find the board."""
        return {VARIABLE: str(self.board.path)}

    def _hold(self) -> Answer:
        self.board.request()
        return Answer.of_processes(self.board.read())

    def _release(self, boundary: int) -> None:
        self.board.ends = bool(self._agreement.ends)
        self.board.stop_at = boundary

    def has_saved(self) -> bool:
        """Return whether this node's processes have stopped, with a complete checkpoint of all."""
        return all(each.phase == Phase.STOPPED for each in self.board.read())

    def has_given_up(self) -> bool:
        """Return whether the run is done, and nothing is left to save; look at its budget."""
        found = (each.step_seconds + each.save_seconds for each in self.board.read())
        if (needs := max(found, default=0.0)) or not self.must_step:
            self._agreement.look(needs)
        return bool(self._agreement.ends) and self._agreement.boundary == NOWHERE

    def has_checkpoint(self, checkpoints: Path) -> bool:
        """Return whether the checkpoint on which the gang has agreed is complete."""
        name = f"checkpoint-{self._step}"
        with lookup.within(LOOKUP_SECONDS):
            return self._agreement.boundary > 0 and read_checkpoint(checkpoints / name) is not None

    @property
    def _step(self) -> int:
        """Return the step that was saved: of a process that has stopped, if there is one."""
        stopped = (r.boundary for r in self.board.read() if r.phase == Phase.STOPPED)
        return step_of(max(stopped, default=self._agreement.boundary))

    def wait(self, child: Child, peers: PeerMonitor, hangs: Callable[[], bool]) -> int | None:
        """Wait for torchrun's exit; after SIGTERM for the save, within the grace period.

        ``hangs``: whether this node's processes must end because of a hang.

        Returns:
            torchrun's exit code; None if a peer was lost, the processes have saved and stopped, or
            must end because of a hang or of the budget, or all ranks must end theirs for a restart.

        Raises:
            Stopped: SIGTERM was received, and the processes have neither saved nor finished. What
                else went wrong by then does not count: peers may be ending for the same reason.
        """
        restarts = peers.restarts

        def must_end() -> bool:
            return restarts.is_asked or hangs() or self.has_saved() or self.has_given_up()

        try:
            return child.wait(peers.lost, until=must_end)
        except Stopped as stopped:
            logs.info("stop requested", signal=stopped, seconds=self._seconds)
            begin = time.monotonic()
            self._agreement.ask(self._seconds)

            def is_over() -> bool:
                waited, boundary = time.monotonic() - begin, self._agreement.boundary
                is_open = boundary == 0 and waited < AGREEMENT_SECONDS
                if waited >= self._seconds or must_end():
                    return True
                return boundary <= 0 and not is_open

            code = child.wait(peers.lost, until=is_over)
            if code == 0 or self.has_saved():
                return code
            raise

    def preempted(self) -> LaunchError:
        """Return the error that ends a rank whose training processes have saved and stopped."""
        return LaunchError(
            Exit.PREEMPTED,
            f"stopped by SIGTERM after step {self._step}, with a checkpoint",
            f"the next attempt resumes from checkpoint-{self._step}",
            id="preempted",
        )


@contextmanager
def stopping(
    agreement: StopAgreement, *, processes: int, grace_seconds: float
) -> Iterator[StopOnRequest]:
    """Provide the step board of this node while torchrun runs."""
    handle, name = tempfile.mkstemp(prefix="dpo-steps-")
    os.close(handle)
    path = Path(name)
    try:
        yield StopOnRequest(StepBoard.make(path, processes), agreement, grace_seconds)
    finally:
        path.unlink(missing_ok=True)
