"""Decide whether another attempt can make progress: pure functions of past attempts' records."""

from collections import Counter
from collections.abc import Iterator, Sequence

from launchers.exits import FREE, USER, Exit, FailureClass, LaunchError
from launchers.stages.attempt_record import AttemptRecord
from launchers.system.remedies import GPU_MEMORY_REMEDY

ATTEMPTS = 3
"""Attempts in a row without progress after which the run ends (``--ft-max-no-progress-cycles`` of
NVIDIA's ft_launcher has the same default)."""
_NO_RECORD = "no rank left a reason: its pod was killed (see the pod's status) or its node was lost"


def judge(attempts: Sequence[AttemptRecord], save_every: int | None) -> LaunchError | None:
    """Return why no further attempt is made; None if one is.

    Only failures since a person last corrected something count: an attempt that ended with a user
    code is not restarted by the cluster. Attempts that were preempted or never trained don't count.
    ``attempts`` are the oldest first; ``save_every`` steps, None if by time or by epoch.
    """
    counted = list(_counted(attempts))
    if len(counted) >= 2 and _same_memory_failure(counted[0], counted[1]):
        return _out_of_memory(counted[:2])
    failed = _without_progress(attempts, save_every)
    return _no_progress(failed[:ATTEMPTS]) if len(failed) >= ATTEMPTS else None


def is_last(attempts: Sequence[AttemptRecord], save_every: int | None) -> bool:
    """Return whether the next attempt is the last one if it fails without progress, too.

    It is made in new pods, perhaps on other nodes: the fault may be that of a pod.
    ``save_every``: as of ``judge``.
    """
    return len(_without_progress(attempts, save_every)) >= ATTEMPTS - 1


def _without_progress(
    attempts: Sequence[AttemptRecord], save_every: int | None
) -> list[AttemptRecord]:
    """Return the last failures that count and completed no higher step, the newest first."""
    failed: list[AttemptRecord] = []
    for attempt in _counted(attempts):
        before = max((a.logged for a in attempts if a.number < attempt.number), default=0)
        if has_progressed(attempt, before, save_every):
            break
        failed.append(attempt)
    return failed


def _counted(attempts: Sequence[AttemptRecord]) -> Iterator[AttemptRecord]:
    """Yield the failures that count, the newest first."""
    for attempt in reversed(attempts):
        root = attempt.root
        if root is not None and root.code in USER:
            return
        is_free = root is not None and root.code in FREE
        if attempt.resumed is not None and not is_free:
            yield attempt


def has_progressed(attempt: AttemptRecord, before: int, save_every: int | None) -> bool:
    """Return whether an attempt completed a higher step than the attempts before it.

    A complete checkpoint counts. Until the next one is due, the last logged step counts instead.
    ``before``: last logged step of all earlier attempts; ``save_every``: as of ``judge``.
    """
    begun = attempt.resumed or 0
    if attempt.saved > begun:
        return True
    is_due = save_every is not None and attempt.logged // save_every > begun // save_every
    return not is_due and attempt.logged > max(before, begun)


def _same_memory_failure(last: AttemptRecord, before: AttemptRecord) -> bool:
    roots = (last.root, before.root)
    return last.logged == before.logged and all(
        root is not None and root.failure_class == FailureClass.GPU_MEMORY for root in roots
    )


def _out_of_memory(failed: Sequence[AttemptRecord]) -> LaunchError:
    cause = f"two attempts ran out of GPU memory at the same step: {_list(failed)}"
    return LaunchError(Exit.OUT_OF_MEMORY, cause, GPU_MEMORY_REMEDY, id="gpu-memory-again")


def _no_progress(failed: Sequence[AttemptRecord]) -> LaunchError:
    """Build the error; its class is the one that most of the attempts ended with."""
    classes = Counter(_class(attempt) for attempt in failed)
    likely, times = classes.most_common(1)[0]
    return LaunchError(
        Exit.NO_PROGRESS,
        f"{len(failed)} attempts in a row completed no higher step; likely cause: {likely} "
        f"({times} of {len(failed)}); {_list(failed)}",
        "correct the cause, then start the run again: it resumes from its last checkpoint",
        id="no-progress",
        failure_class=likely,
    )


def _class(attempt: AttemptRecord) -> FailureClass:
    root = attempt.root
    known = {str(each): each for each in FailureClass}
    return known.get(root.failure_class if root else "", FailureClass.UNKNOWN)


def _list(failed: Sequence[AttemptRecord]) -> str:
    """Name the attempts with step and cause, the oldest first."""
    found = []
    for attempt in reversed(failed):
        cause = attempt.root.cause[:200] if attempt.root else _NO_RECORD
        found.append(
            f"attempt {attempt.number} after step {attempt.logged}: {_class(attempt)}: {cause}"
        )
    return "; ".join(found)
