"""Deletion of older checkpoints, after a newer one is complete.

ms-swift deletes by modification time, before the seal, and counts the folder of an interrupted
save (``swift/megatron/trainers/base.py``, ``_rotate_checkpoints``): a kill before the seal could
leave no complete checkpoint.

Only two kinds of folders are deleted: what an interrupted save of this run has left, and this run's
complete checkpoints beyond the limit. A folder that cannot be read, of another run, with a damaged
seal or behind a link stays, and the log says so once.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.storage import checkpoint, disk, manifest, run_lease
from launchers.storage.checkpoint import Checkpoint, Rejected
from launchers.system import lookup
from launchers.system.atomic_file import flush

LOOKUP_SECONDS = 5.0
"""Time in which one rotation repeats questions to a storage that does not answer: training may wait
for it, and the next save rotates again."""
_named: set[Path] = set()
"""Folders that the log of this process has named."""


def to_delete(
    complete: Collection[Checkpoint],
    rejected: Collection[Rejected],
    limit: int | None,
    keep: Collection[str] = (),
) -> list[Path]:
    """Choose the folders to delete; the newest complete checkpoint never is. Pure.

    Args:
        complete: the run's complete checkpoints.
        rejected: other folders; those without a seal are deleted if they are older.
        limit: complete checkpoints to keep, the newest first; None keeps all.
        keep: names of checkpoints to keep beyond the limit, such as the best one.
    """
    if not complete:
        return []
    newest = max(each.step for each in complete)
    left = [
        each.path
        for each in rejected
        if each.id == checkpoint.UNSEALED
        and checkpoint.step_of(each.path) < newest
        and each.path.name not in keep
    ]
    if not limit or limit < 0:
        return left
    oldest = sorted(complete, key=lambda each: each.step)
    free = [each for each in oldest if each.step != newest and each.path.name not in keep]
    return left + [each.path for each in free[: max(0, len(complete) - limit)]]


def apply(checkpoints: Path, limit: int | None, keep: Collection[str] = ()) -> None:
    """Delete what ``to_delete`` chooses; an error of the disk is logged, and training continues."""
    complete: list[Checkpoint] = []
    rejected: list[Rejected] = []
    with lookup.within(LOOKUP_SECONDS):
        try:
            folders = checkpoint.folders(checkpoints)
        except LaunchError as error:
            logs.warning("no checkpoint deleted", path=checkpoints, cause=error.cause)
            return
        for folder in folders:
            found = _judge(folder)
            if isinstance(found, Checkpoint):
                complete.append(found)
            elif found.id == checkpoint.UNSEALED:
                rejected.append(found)
            elif folder not in _named:
                _named.add(folder)
                logs.warning("checkpoint left", path=folder, id=found.id, cause=found.cause)
        for folder in to_delete(complete, rejected, limit, keep):
            try:
                run_lease.check()
                remove(folder)
            except (OSError, LaunchError) as error:
                if isinstance(error, LaunchError) and error.code == Exit.PREEMPTED:
                    raise
                logs.warning("checkpoint not deleted", path=folder, cause=error)
            else:
                logs.info("checkpoint deleted", path=folder)


def _judge(folder: Path) -> Checkpoint | Rejected:
    """Return what a folder is; one that may not be deleted has another id than an unsealed one."""
    try:
        found = checkpoint.inspect(folder)
        if isinstance(found, Rejected) and found.id != checkpoint.UNSEALED:
            return found
        paths = (folder, checkpoint.merged(folder), *manifest.files(folder))
        if link := next(filter(lookup.is_link, paths), None):
            return Rejected(path=folder, id="checkpoint-link", cause=f"{link} is a link")
        if isinstance(found, Rejected) and checkpoint.is_foreign(folder):
            cause = "it is older than the run and has no seal"
            return Rejected(path=folder, id=checkpoint.OTHER_RUN, cause=cause)
    except LaunchError as error:
        return Rejected(path=folder, id=error.id, cause=error.cause)
    return found


def remove(folder: Path) -> None:
    """Delete a checkpoint and its merged model, the manifest first: an interruption unseals it."""
    for each in (folder, checkpoint.merged(folder)):
        if lookup.is_dir(each):
            (each / checkpoint.COMPLETE).unlink(missing_ok=True)
            flush(each)
            disk.remove(each)
