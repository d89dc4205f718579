"""Deletion of older checkpoints, after a newer one is complete.

ms-swift deletes by modification time, before the seal, and counts the folder of an interrupted
save (``swift/megatron/trainers/base.py``, ``_rotate_checkpoints``): a kill before the seal could
leave no complete checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from launchers import logs
from launchers.storage import checkpoint, disk, run_lease
from launchers.storage.checkpoint import Checkpoint, Rejected
from launchers.system.atomic_file import flush


def to_delete(
    complete: Collection[Checkpoint],
    rejected: Collection[Rejected],
    limit: int | None,
    keep: Collection[str] = (),
) -> list[Path]:
    """Choose the folders to delete; the newest complete checkpoint never is. Pure.

    Args:
        complete: the run's complete checkpoints.
        rejected: folders of interrupted saves and rotations, and damaged ones.
        limit: complete checkpoints to keep, the newest first; None keeps all.
        keep: names of checkpoints to keep beyond the limit, such as the best one.
    """
    if not complete:
        return []
    newest = max(each.step for each in complete)
    left = [
        each.path
        for each in rejected
        if each.id != "checkpoint-damaged" and checkpoint.step_of(each.path) < newest
    ]
    if not limit or limit < 0:
        return left
    oldest = sorted(complete, key=lambda each: each.step)
    free = [each for each in oldest if each.step != newest and each.path.name not in keep]
    return left + [each.path for each in free[: max(0, len(complete) - limit)]]


def apply(checkpoints: Path, limit: int | None, keep: Collection[str] = ()) -> None:
    """Delete what ``to_delete`` chooses; an error of the disk is logged, and training continues."""
    complete, rejected = checkpoint.complete(checkpoints), checkpoint.rejected(checkpoints)
    for folder in to_delete(complete, rejected, limit, keep):
        run_lease.check()
        try:
            remove(folder)
        except OSError as error:
            logs.warning("checkpoint not deleted", path=folder, cause=error)
        else:
            logs.info("checkpoint deleted", path=folder)


def remove(folder: Path) -> None:
    """Delete a checkpoint and its merged model, the manifest first: an interruption unseals it."""
    for each in (folder, checkpoint.merged(folder)):
        if each.is_dir():
            (each / checkpoint.COMPLETE).unlink(missing_ok=True)
            flush(each)
            disk.remove(each)
