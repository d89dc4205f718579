"""Restarts in place: the gang starts its training processes again, in the pods that it has.

A new attempt without new pods: containers, stages, the gang and the preflight stay, and the page
cache is warm. Who may ask for one, and when it is left to the cluster, is decided here; how the
ranks agree is in ``gang/restart_agreement.py``.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.exits import Exit, FailureClass, LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.restart_agreement import Begin, Declined, Ended
from launchers.progress.progress import Progress
from launchers.stages.attempt import Attempt, checked_attempt, is_last_attempt
from launchers.stages.attempt_record import PEER_ENDED, begin
from launchers.storage import node_disk
from launchers.system.process import kill_descendants

CODES = frozenset({Exit.PEER, Exit.UNAVAILABLE, Exit.HANG, Exit.INCOMPLETE})
"""Exit codes of failures that may pass in the same pod. A user error fails again. A faulty GPU or a
node's limit (80) and an I/O error of the workspace (74) need new pods, perhaps on other nodes."""
NEW_PODS = frozenset({FailureClass.HOST_MEMORY, FailureClass.STORAGE, FailureClass.PREEMPTION})
"""Classes that need new pods: what fills the memory may be files in ``/dev/shm``, which outlive the
processes, and a mount may be broken. After SIGTERM the pod is about to end."""
NO_CAUSE = (*PEER_ENDED, "train-failed")
"""Ids of ends that name no cause of their own."""
COPY_SECONDS = 600.0
"""Time in which nodes may differ in the copy of what their disks have of a checkpoint."""
EXTERNAL = "killed-by-other"
"""Id of an end by SIGKILL from outside the run."""
END_SECONDS = 60.0
"""Time in which the training processes must be gone: they hold the GPUs' memory and the port."""


def is_allowed(error: LaunchError) -> bool:
    """Return whether the rank that ends with this error may ask for a restart in place.

    >>> oom = FailureClass.HOST_MEMORY
    >>> is_allowed(LaunchError(Exit.PEER, "killed", "", id="killed-by-other"))
    True
    >>> is_allowed(LaunchError(Exit.PEER, "killed", "", id="x", failure_class=oom))
    False
    """
    is_cascade = error.id in NO_CAUSE
    return error.code in CODES and (is_cascade or error.failure_class not in NEW_PODS)


@dataclass(frozen=True, kw_only=True)
class Count:
    """The restarts in place of one pod's life, as rank 0 counts them."""

    restarts: int = 0
    """Since the last higher complete checkpoint."""
    step: int = 0
    """The highest step of a complete checkpoint at a restart or at the pod's first start."""

    def after(self, step: int) -> Count:
        """Return the count with one more restart, from the checkpoint of ``step``.

        >>> Count(restarts=2, step=10).after(10), Count(restarts=2, step=10).after(15)
        (Count(restarts=3, step=10), Count(restarts=1, step=15))
        """
        restarts = 1 if step > self.step else self.restarts + 1
        return Count(restarts=restarts, step=max(step, self.step))

    @property
    def pause_seconds(self) -> float:
        """Return the seconds to wait before this restart.

        The first one follows at once: most failures are single events.

        >>> [Count(restarts=number).pause_seconds for number in (1, 2, 3, 4)]
        [0.0, 1.0, 2.0, 4.0]
        """
        return 0.0 if self.restarts < 2 else 2.0 ** (self.restarts - 2)


class Restarts:
    """The restarts in place of one rank; rank 0 decides for all."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        recipe: Recipe,
        attempt: Attempt,
        peers: PeerMonitor,
        progress: Progress | None,
    ) -> None:
        """Let this rank ask for restarts, unless the settings allow none."""
        self._name, self._settings, self._recipe = name, settings, recipe
        self._peers, self._progress = peers, progress
        self._count = Count(step=_step(attempt))
        in_place = settings.training.restarts_in_place > 0 and not recipe.script
        peers.restarts.is_enabled = in_place
        if settings.launch.local is not None:
            peers.restarts.patience += COPY_SECONDS

    def next(self, error: LaunchError, spare: Collection[int]) -> Begin:
        """Return the gang's decision to train again after this rank's training failed.

        ``spare`` processes, those of the standby, may live on.

        Raises:
            LaunchError: there is no restart in place: ``error``, or the error of a rank that ends
                because of another one; on rank 0 also that no further attempt is made.
        """
        peers, failed = self._peers, time.time()
        if not peers.restarts.is_enabled or peers.loss is not None or not is_allowed(error):
            raise error
        if not kill_descendants(END_SECONDS, spare):
            logs.warning("no restart in place", why=f"a process is left after {END_SECONDS:.0f} s")
            raise error
        node_disk.push(self._settings.launch.local, self._settings.launch.work.checkpoints)
        ended = Ended(
            who=self._name,
            code=int(error.code),
            cause=error.cause,
            is_cascade=error.id in NO_CAUSE,
            is_external=error.id == EXTERNAL,
        )
        answer = peers.restarts.agree(ended, peers.lost, partial(self._begin, failed))
        if isinstance(answer, Begin):
            logs.info("restart in place", attempt=answer.attempt, resume=answer.resume)
            return answer
        if isinstance(answer, Declined):
            logs.warning("no restart in place", why=answer.why)
            if answer.first == ended:
                raise error
            peers.record_loss(answer.loss)
        raise peers.loss.error() if peers.loss is not None else error

    def _begin(self, failed: float, first: Ended) -> Begin | str:
        """Begin another attempt on rank 0, once no rank has a training process; or say why not.

        ``failed`` is Unix time.
        """
        if self._peers.agreement.is_asked:
            return "a rank has received SIGTERM"
        node_disk.finish(self._settings.launch.work.checkpoints)
        attempt = checked_attempt(self._settings.launch, self._recipe)
        count = self._count.after(_step(attempt))
        if count.restarts > self._settings.training.restarts_in_place:
            return f"{self._count.restarts} restarts in place without a higher checkpoint"
        if is_last_attempt(self._settings.launch.work, self._recipe):
            return "the last attempt without progress is made in new pods"
        self._peers.lost.wait(count.pause_seconds)
        self._count = count
        begin(attempt.folder(self._settings.launch.work), attempt.resume)
        if self._progress is not None:
            self._progress.restart(attempt.number, failed=failed, why=f"{first.who}: {first.cause}")
        return Begin(
            attempt=attempt.number, resume=attempt.resume.path.name if attempt.resume else ""
        )


def _step(attempt: Attempt) -> int:
    return attempt.resume.step if attempt.resume else 0
