"""Checkpoints on a disk of each node: written there first, copied to the workspace, read back.

Each rank writes its shards to its node's disk and notes their digests (``digest_own``). When all
have, rank 0 lists on the workspace what each has written (``PENDING.json``), and each rank copies
its shards, comparing them with the digests; its note follows them. The seal comes when all notes
have. Where training ends in between, each launcher copies what its node has before the next start
(``push``), and rank 0 seals a checkpoint that is complete (``finish``). So a checkpoint
counts when it is complete on the workspace, as without this disk.

A resume reads from a folder of links (``nearest``): to this disk where it has the very shard that
was sealed, to the workspace otherwise. No rank relies on the disk of another node, in any
layout and with any rank that a node has after a restart.
"""

import errno
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.exits import LaunchError
from launchers.storage import checkpoint, chunk_digests, disk, manifest
from launchers.storage.checkpoint import PENDING, Checkpoint, rank_digests
from launchers.system.atomic_file import FOREIGN, flush, known_object, read_object, replace, torn
from launchers.system.threads import each

FOLDER, LIMIT = "DPO_LOCAL_FOLDER", "DPO_LOCAL_BYTES"
"""Variables of the training processes: this run's folder on the node's disk, and the bytes that the
run may use there, 0 for no limit."""
VISIBLE_SECONDS = 10.0
"""Time that rank 0 waits to see the notes of other nodes: NFS may show them late."""
POLL_SECONDS = 0.5
KEPT_FREE = 0.9
"""Largest part of the free space that a save takes: files have some bytes besides their tensors."""
_LINKS = "resume"
Written = Mapping[str, Mapping[str, Any]]
"""The digests of ``rank_digests``; empty for a rank that writes nothing."""


def copying(folder: Path) -> Path:
    """Return the folder of files that are being copied into a checkpoint; its seal lists none."""
    return folder.with_name(f"{folder.name}.copying")


def copy_shards(
    local: Path, folder: Path, rank: int, flushed: Callable[[], None] = lambda: None
) -> None:
    """Copy a rank's shards to the workspace, each by a rename; its note of the digests last.

    Raises:
        OSError: a file differs from its digests, or the error of a disk.
    """
    written, note = rank_digests(local, rank), checkpoint.rank_note(folder, rank)
    if not written:
        raise OSError(errno.ENOENT, "has no digests", str(local))
    if read_object(note) == written:
        return
    note.unlink(missing_ok=True)
    for name, size in written["sizes"].items():
        if (local / name).stat().st_size != size:
            raise OSError(errno.EIO, "differs from what was written", str(local / name))
        target, part = folder / name, copying(folder) / Path(name).name
        for each_folder in (target.parent, part.parent):
            disk.make_folder(each_folder)
        chunk_digests.copy(local / name, part, written["digests"][name], flushed)
        part.replace(target)
        flush(target.parent)
    replace(note, json.dumps(written))


def announce(folder: Path, written: Sequence[Written]) -> None:
    """Note on the workspace what all ranks have written, by rank.

    What the folder holds by then, such as the index, is flushed: ``finish`` takes it for whole.
    """
    disk.flush_tree(folder)
    flush(folder.parent)
    replace(folder / PENDING, json.dumps({"ranks": list(written)}))


def pending(checkpoints: Path) -> Iterator[tuple[Path, list[Written]]]:
    """Yield checkpoints newer than the newest complete one, with what ranks have written.

    Raises:
        LaunchError: IO if the storage does not answer, or the note of one is torn.
    """
    for found in checkpoint.newest_and_rejected(checkpoints)[1]:
        remedy = "remove it to give this checkpoint up, and resume from an older one"
        ranks = known_object(found.path / PENDING, remedy).get("ranks", [])
        if not isinstance(ranks, list):
            raise torn(found.path / PENDING, remedy)
        if ranks and found.id == checkpoint.UNSEALED:
            yield found.path, ranks


def push(root: Path | None, checkpoints: Path) -> None:
    """Copy what this node has of pending checkpoints; no process of this node may be training.

    An error is only logged: without this node's part an older checkpoint is chosen.
    ``root``: this run's folder on the node's disk; None without one.
    """
    if root is None:
        return
    try:
        for folder, ranks in pending(checkpoints):
            local, begin = root / folder.name, time.monotonic()
            own = [n for n, w in enumerate(ranks) if w and rank_digests(local, n) == w]
            logs.info("copying shards to the workspace", checkpoint=folder.name, ranks=len(own))
            each(partial(copy_shards, local, folder), own)
            seconds = round(time.monotonic() - begin, 1)
            logs.info("shards copied", checkpoint=folder.name, seconds=seconds)
    except (OSError, LaunchError, *FOREIGN) as error:
        logs.warning("shards on this node's disk not copied", cause=error)


def finish(checkpoints: Path) -> None:
    """Seal the pending checkpoints that all nodes have copied; on rank 0, after ``push`` on all.

    The others are given up: the run continues from an older one, and saves these steps again.

    Raises:
        LaunchError: IO, QUOTA when the workspace fails.
    """
    with disk.reporting(checkpoints):
        for folder, ranks in list(pending(checkpoints)):
            stop = time.monotonic() + VISIBLE_SECONDS
            while (absent := _absent(folder, ranks)) and time.monotonic() < stop:
                time.sleep(POLL_SECONDS)
            disk.remove(copying(folder))
            if not absent and checkpoint.seal(folder, checkpoint.step_of(folder)):
                logs.info("checkpoint completed from the nodes' disks", name=folder.name)
            else:
                checkpoint.unseal(folder)
                logs.warning("checkpoint not completed", name=folder.name, missing_ranks=absent)


def _absent(folder: Path, ranks: Sequence[Written]) -> list[int]:
    """Return the ranks whose shards are not all on the workspace."""
    return [rank for rank, written in enumerate(ranks) if not _has(folder, rank, written)]


def _has(folder: Path, rank: int, written: Written) -> bool:
    if rank_digests(folder, rank) != written:
        return False
    return not manifest.wrong_size(folder, written.get("sizes", {}))


def nearest(root: Path, resume: Checkpoint, seconds: float) -> Checkpoint:
    """Return a folder of links to a checkpoint's files: on this node's disk where it has them.

    0 ``seconds`` compare only the digests noted when the files were written.

    Returns:
        The links; ``resume`` itself if this disk fails.
    """
    try:
        sizes, digests = checkpoint.sealed_files(resume.path)
        own = _own(root / resume.path.name, sizes, digests, seconds)
        disk.remove(root / _LINKS)
        made = root / _LINKS / resume.path.name
        for name in sizes:
            link, near = made / name, root / resume.path.name / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(near if name in own else resume.path / name)
    except (OSError, LaunchError, *FOREIGN) as error:
        logs.warning("checkpoint read from the workspace", cause=error)
        return resume
    bytes_here = sum(sizes[name] for name in own)
    logs.info("checkpoint on this node's disk", name=resume.path.name, bytes=bytes_here)
    return Checkpoint(path=made, step=resume.step)


def _own(
    local: Path, sizes: Mapping[str, int], digests: Mapping[str, str], seconds: float
) -> set[str]:
    """Return the files that this disk has as they were sealed; none if one of them is damaged."""
    noted: dict[str, str] = {}
    for note in checkpoint.rank_notes(local):
        noted |= read_object(note).get("digests", {})
    own = {
        name: size
        for name, size in sizes.items()
        if chunk_digests.agree(noted.get(name, ""), digests.get(name, ""))
        and not manifest.wrong_size(local, {name: size})
    }
    if own and seconds > 0:
        wanted = {name: digests[name] for name in own}
        damaged = chunk_digests.compare(local, own, wanted, seconds).damaged
        if damaged:
            logs.warning("shards on this node's disk are not read", cause=damaged[0])
            return set()
    return set(own)


def make_room(root: Path, checkpoints: Path) -> None:
    """Delete all checkpoints on this disk but the newest that is complete on the workspace.

    Raises:
        OSError, LaunchError: one of the two does not answer; nothing is deleted.
    """
    newest = checkpoint.newest(checkpoints)
    for folder in checkpoint.folders(root):
        if newest is None or folder.name != newest.path.name:
            disk.remove(folder)


def has_room(root: Path, needed: int, limit: int) -> bool:
    """Return whether the disk has room for a save of all ranks of this node.

    The run may use ``limit`` bytes, 0 for no limit; ``root`` is made if missing.

    Raises:
        OSError, LaunchError: the disk fails.
    """
    root.mkdir(parents=True, exist_ok=True)
    rooms = [disk.free(root), limit - disk.held(root) if limit else None]
    return all(needed <= KEPT_FREE * room for room in rooms if room is not None)


def clear(root: Path) -> None:
    """Delete what this run has on this disk, once it has trained all steps."""
    with suppress(OSError, LaunchError):
        for folder in (*root.glob("checkpoint-*"), root / _LINKS):
            disk.remove(folder)
        root.rmdir()
