"""Deletion of older checkpoints, after a newer one is complete, and of what is in a save's way.

ms-swift deletes by modification time, before the seal, and counts the folder of an interrupted
save (``swift/megatron/trainers/base.py``, ``_rotate_checkpoints``): a kill before the seal could
leave no complete checkpoint.

Only two kinds of folders are deleted: what an interrupted save of this run has left, which has the
mark of that save, and this run's complete checkpoints beyond the limit. A folder that cannot be
read, of another run, without seal and mark, with a damaged seal or behind a link stays, and the log
says so once. Files that a complete checkpoint holds and its seal does not list are a user's: they
are renamed.
"""

from collections.abc import Collection
from pathlib import Path

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.storage import checkpoint, disk, manifest, run_lease
from launchers.storage.checkpoint import Checkpoint, Rejected
from launchers.system import lookup
from launchers.system.atomic_file import flush, read_object

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
        rejected: other folders; this run's without a seal are deleted if they are older.
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
        if isinstance(found, Rejected) and (cause := checkpoint.foreign(folder)):
            return Rejected(path=folder, id=checkpoint.OTHER_RUN, cause=cause)
    except LaunchError as error:
        return Rejected(path=folder, id=error.id, cause=error.cause)
    return found


def remove(folder: Path) -> None:
    """Delete a checkpoint and its merged model, the manifest first: an interruption unseals it.

    The mark is deleted last, so that a later rotation deletes what an interrupted one has left.
    """
    own = _own_parts(folder)
    for each in own:
        disk.keep(each, checkpoint.strangers(each))
        checkpoint.unseal(each)
    for each in reversed(own):
        _clear(each)
        disk.remove(each)


def prepare(folder: Path) -> None:
    """Begin a save: mark its folder as this run's, and make room for its files.

    What is not known to be this run's is renamed. Of an earlier save of this run nothing is
    overwritten, all files are unlinked: a process of an earlier leader may have them open. The
    caller has verified the lease (``stop/boundary.py``).
    """
    own = [] if checkpoint.foreign(folder) else _own_parts(folder)
    for each in (folder, checkpoint.merged(folder)):
        if each not in own and lookup.status(each, follow=False) is not None:
            disk.keep(each)
    for each in own:
        disk.keep(each, checkpoint.strangers(each))
        checkpoint.unseal(each)
        _clear(each)
    for whole in own[1:]:  # the next save may merge nothing
        try:
            disk.remove(whole)
        except OSError as error:  # a file of it is open on this client of NFS
            logs.warning("merged model of an earlier save not removed", path=whole, cause=error)
    checkpoint.mark(folder)


def _own_parts(folder: Path) -> list[Path]:
    """Return the folders of a checkpoint of this run: its own, and that of its merged model.

    A save seals the merged model first: one without seal and mark is a user's if the checkpoint is
    or was sealed.
    """
    whole, mark = checkpoint.merged(folder), read_object(folder / checkpoint.SAVING)
    is_cut = mark and "files" not in mark and not lookup.exists(folder / checkpoint.COMPLETE)
    own = [folder, whole] if is_cut or not checkpoint.foreign(whole) else [folder]
    return [each for each in own if lookup.is_dir(each) and not lookup.is_link(each)]


def _clear(folder: Path) -> None:
    """Unlink all files but the mark, for good: a crash leaves none without the mark."""
    found = list(manifest.files(folder, (checkpoint.SAVING,)))
    for path in found:
        path.unlink(missing_ok=True)
    for each in {folder, *(path.parent for path in found)}:
        flush(each)
