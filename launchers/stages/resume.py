"""The checkpoint that an attempt resumes from: the newest complete and undamaged one.

Each node compares its share of the files with the digests of the manifest, within a time limit;
the pages that it reads are then in its page cache. Rank 0 compares before it chooses: a damaged one
gives way to the one before. Another rank ends the attempt, and the next one chooses again. One of
another run gives way, too; where a run has no other, somebody put it there, and the run ends, as it
does where one whose seal is torn is the only one.
"""

from pathlib import Path

from launchers import logs
from launchers.exits import Exit, FailureClass, LaunchError
from launchers.storage import checkpoint, disk
from launchers.storage.checkpoint import Checkpoint, Rejected
from launchers.system import lookup
from launchers.system.atomic_file import torn


def choose(
    checkpoints: Path, seconds: float, *, nodes: int = 1, attempt: int = 0
) -> Checkpoint | None:
    """Choose the newest whole checkpoint on rank 0; log why newer folders are not chosen.

    Each is compared for ``seconds``, 0 for none; another ``attempt`` begins with other chunks.

    Raises:
        LaunchError: IO, QUOTA when the storage fails; CONFIG when all that are whole are of another
            run; IO when none is whole, and the seal of one is torn.
    """
    while True:
        found, rejected = checkpoint.newest_and_rejected(checkpoints)
        for no in rejected:
            logs.warning("checkpoint not chosen", name=no.path.name, id=no.id, cause=no.cause)
        for no in rejected if found is None else ():
            if no.id == checkpoint.OTHER_RUN:
                raise _only_foreign(no)
            if no.id == checkpoint.TORN:
                restore = "restore it, or remove the checkpoint to train from the beginning"
                raise torn(no.path / checkpoint.COMPLETE, restore)
        if found is None or not _damage(found, seconds, part=0, parts=nodes, seed=attempt):
            return found


def _only_foreign(found: Rejected) -> LaunchError:
    """Return the refusal of a run that would ignore the only checkpoints it was given."""
    return LaunchError(
        Exit.CONFIG,
        f"{found.path} cannot be resumed from: {found.cause}",
        "to continue a run under another name, move its whole folder there, with inputs.json and "
        "attempts; to train from the beginning, remove the checkpoint",
        id=checkpoint.OTHER_RUN,
    )


def verify_share(found: Checkpoint, seconds: float, *, rank: int, nodes: int, attempt: int) -> None:
    """Compare the share of a node other than rank 0's.

    Raises:
        LaunchError: IO when the checkpoint is damaged: the next attempt chooses another one.
    """
    cause = _damage(found, seconds, part=rank, parts=nodes, seed=attempt)
    if cause:
        raise LaunchError(
            Exit.IO,
            f"{found.path} is damaged: {cause}",
            "a restart resumes from the checkpoint before; check the storage of the workspace",
            id="checkpoint-digest",
            failure_class=FailureClass.STORAGE,
        )


def _damage(found: Checkpoint, seconds: float, *, part: int, parts: int, seed: int) -> str:
    """Return what is damaged in a share of a checkpoint, and note it there; empty if nothing."""
    if seconds <= 0:
        return ""
    with disk.reporting(found.path):
        result = lookup.existing(
            lambda: checkpoint.verify(found.path, seconds, part=part, parts=parts, seed=seed),
            found.path,
        )
        logs.info(
            "checkpoint compared with its digests",
            name=found.path.name,
            chunks=result.compared,
            of=result.share,
            seconds=result.seconds,
        )
        if not result.damaged:
            return ""
        checkpoint.condemn(found.path, "; ".join(result.damaged[:10]))
    logs.warning("checkpoint damaged", name=found.path.name, cause=result.damaged[0])
    return result.damaged[0]
