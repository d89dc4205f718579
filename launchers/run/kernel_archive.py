"""The archives of compiled kernels on the workspace: unpacked at a start, then renewed.

``<workspace>/cache/jit/<key>/first.tar.gz`` is what the gang's first node has compiled, and
``last.tar.gz`` the last one, which holds other layers where pipeline stages span nodes. All GPUs
of a node are in it: Inductor's keys name the device. Every node unpacks both. Readers and writers
never wait for each other: a writer writes beside it and renames, a reader unpacks beside its
folder and renames, and gzip's checksum, at the stream's end, tells a torn or damaged file. Its
lowest level: what is packed is mostly ELF, and a fast volume is rarer than an idle core.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from launchers import logs
from launchers.storage import manifest
from launchers.storage.checkpoint import flush

NAMES = ("first.tar.gz", "last.tar.gz")
LIMIT = 2 * 1024**3
"""Bytes of a node's folder above which it is not archived."""
STALE = 3600.0
"""Seconds after which another writer's unfinished file is taken for abandoned."""
UNFINISHED = (".lock", "/lock", ".tmp")
"""Ends of names of lock files, which in an archive would be held for ever, and of Inductor's
half-written files; Triton's are in folders called ``tmp.pid_...``."""


class Entry(NamedTuple):
    """One file worth keeping."""

    size: int
    """Bytes."""
    stamp: int
    """Of bytecode its age, as it is replaced under its name; a kernel's name is a digest."""


def contents(folder: Path) -> dict[str, Entry]:
    """List what is worth keeping of a folder: no locks, nothing unfinished."""
    found: dict[str, Entry] = {}
    for path in manifest.files(folder):
        name = path.relative_to(folder).as_posix()
        if name.endswith(UNFINISHED) or "/tmp.pid_" in name or path.is_symlink():
            continue
        try:
            seen = path.stat()
        except OSError:  # gone meanwhile: it was a temporary one
            continue
        found[name] = Entry(seen.st_size, seen.st_mtime_ns if name.endswith(".pyc") else 0)
    return found


def own_name(rank: int, nodes: int) -> str:
    """Return the archive that a node writes; empty for the nodes between the first and the last.

    >>> [own_name(rank, 3) for rank in range(3)]
    ['first.tar.gz', '', 'last.tar.gz']
    """
    if rank == 0:
        return NAMES[0]
    return NAMES[1] if rank == nodes - 1 else ""


def seed(archives: Sequence[Path], folder: Path) -> bool:
    """Fill a node's folder from the archives; a damaged one is passed over with a warning.

    Returns:
        Whether there are kernels in the folder.
    """
    if folder.is_dir():  # this container's own, from before
        return any(folder.iterdir())
    part = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    _fill(archives, part)
    warm = any(part.iterdir())
    try:
        part.rename(folder)
    except OSError:  # another launcher on this host was first
        shutil.rmtree(part, ignore_errors=True)
    return warm


def _fill(archives: Sequence[Path], folder: Path) -> None:
    """Unpack all; of a damaged one nothing may stay, so the others are unpacked once more."""
    for archive in archives:
        try:
            _unpack(archive, folder)
        except FileNotFoundError:
            continue  # the first run of its kind
        except (OSError, EOFError, tarfile.TarError, ValueError, zlib.error) as error:
            what = "compiled kernels not read, they will be made anew"
            logs.warning(what, file=archive, cause=error)
            shutil.rmtree(folder)
            folder.mkdir(mode=0o700)
            _fill([each for each in archives if each != archive], folder)
            return


def _unpack(archive: Path, folder: Path) -> None:
    with gzip.open(archive, "rb") as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            # where no stage spans nodes, the second archive holds what the first does
            new = (member for member in tar if not (folder / member.name).exists())
            tar.extractall(folder, members=new, filter="data")
        while stream.read(1 << 20):  # to the end: gzip compares its checksum there
            pass


def publish(folder: Path, archive: Path, known: Mapping[str, Entry], holder: str) -> str:
    """Archive a node's folder, if it holds more than ``known``.

    Args:
        folder: of this node.
        archive: its place on the workspace.
        known: what was in the folder before training.
        holder: this pod, for the name of the unfinished file.

    Returns:
        What was done, in words.

    Raises:
        OSError: the workspace took no file.
    """
    found = contents(folder)
    if all(name in known and known[name].stamp == each.stamp for name, each in found.items()):
        return "nothing new"
    size = sum(each.size for each in found.values())
    if size > LIMIT:
        return f"{size / 1e9:.1f} GB is too much to keep; remove {archive.parent}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    _sweep(archive)
    part = archive.with_name(f"{archive.name}.partial-{holder}-{os.getpid()}")
    try:
        # GNU's headers are half as many as POSIX's, and are read twice as fast
        with tarfile.open(part, "w:gz", compresslevel=1, format=tarfile.GNU_FORMAT) as tar:
            for name in sorted(found):
                _add(tar, folder, name)
        flush(part)
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return f"{len(found)} files, {archive.stat().st_size / 1e6:.0f} MB"


def _add(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add one file as read at once: it may grow or go meanwhile (the driver's index)."""
    try:
        data = (folder / name).read_bytes()
        member = tar.gettarinfo(str(folder / name), name)
    except FileNotFoundError:
        return
    member.size, member.mtime = len(data), int(member.mtime)
    member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
    tar.addfile(member, io.BytesIO(data))


def _sweep(archive: Path) -> None:
    """Remove what writers that were killed have left."""
    for part in archive.parent.glob(f"{archive.name}.partial-*"):
        try:
            if time.time() - part.stat().st_mtime > STALE:
                part.unlink()
        except OSError:
            continue
