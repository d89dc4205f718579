"""The archives of compiled kernels on the workspace: unpacked before training, renewed after it.

``<workspace>/cache/jit/<key>/first.tar.gz`` holds the kernels of the gang's first node,
``last.tar.gz`` those of the last one, which has other layers when pipeline stages span nodes. Each
has the kernels of all GPUs of the node: Inductor's keys name the device. Every node unpacks both.
Readers and writers never wait for each other: a writer writes a temporary file and renames it, a
reader unpacks into a temporary folder and renames it, and gzip's checksum at the end of the stream
detects an incomplete or damaged file. The compression level is the lowest: the content is mostly
ELF, and fast volumes are rarer than idle cores.
"""

import contextlib
import gzip
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Container, Sequence
from pathlib import Path

from launchers import logs
from launchers.storage import manifest
from launchers.system.atomic_file import flush
from launchers.units import GIB

NAMES = ("first.tar.gz", "last.tar.gz")
MAX_BYTES = 2 * GIB
"""A larger folder of a node is not archived."""
STALE_SECONDS = 3600.0
"""Age at which another writer's unfinished file counts as abandoned."""
UNFINISHED = (".lock", "/lock", ".tmp")
"""Name endings of lock files, which once archived would never be released, and of Inductor's
unfinished files; Triton's are in folders called ``tmp.pid_...``."""


def contents(folder: Path) -> dict[str, int]:
    """Return the bytes of the files of a folder to archive: no locks, no unfinished files."""
    found: dict[str, int] = {}
    for path in manifest.files(folder):
        name = path.relative_to(folder).as_posix()
        if name.endswith(UNFINISHED) or "/tmp.pid_" in name or path.is_symlink():
            continue
        with contextlib.suppress(OSError):  # a temporary file, removed meanwhile
            found[name] = path.stat().st_size
    return found


def own_name(rank: int, nodes: int) -> str:
    """Return the name of the archive that a node writes; empty unless it is the first or the last.

    >>> [own_name(rank, 3) for rank in range(3)]
    ['first.tar.gz', '', 'last.tar.gz']
    """
    if rank == 0:
        return NAMES[0]
    return NAMES[1] if rank == nodes - 1 else ""


def seed(archives: Sequence[Path], folder: Path) -> bool:
    """Fill a node's folder from the archives; skip a damaged one with a warning.

    Returns:
        True if the folder has kernels.
    """
    if folder.is_dir():  # from an earlier start of this container
        return any(folder.iterdir())
    part = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    _fill(archives, part)
    warm = any(part.iterdir())
    try:
        part.rename(folder)
    except OSError:  # another launcher on this host was faster
        shutil.rmtree(part, ignore_errors=True)
    return warm


def _fill(archives: Sequence[Path], folder: Path) -> None:
    """Unpack all archives; after a damaged one remove all files and unpack the others again."""
    for archive in archives:
        try:
            _unpack(archive, folder)
        except FileNotFoundError:
            continue  # the first run with this key
        except (OSError, EOFError, tarfile.TarError, ValueError, zlib.error) as error:
            what = "compiled kernels not read; they will be compiled again"
            logs.warning(what, file=archive, cause=error)
            shutil.rmtree(folder)
            folder.mkdir(mode=0o700)
            _fill([each for each in archives if each != archive], folder)
            return


def _unpack(archive: Path, folder: Path) -> None:
    with gzip.open(archive, "rb") as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            # the second archive repeats the first when no pipeline stage spans nodes
            new = (member for member in tar if not (folder / member.name).exists())
            tar.extractall(folder, members=new, filter="data")
        while stream.read(1 << 20):  # to the end: gzip verifies its checksum there
            pass


def publish(folder: Path, archive: Path, known: Container[str], holder: str) -> str:
    """Archive a node's folder, if it has new files; the name of a kernel is a digest.

    ``known`` are the files of the folder before training.

    Returns:
        A description of the result, for the log.

    Raises:
        OSError: when the workspace cannot be written.
    """
    found = contents(folder)
    if all(name in known for name in found):
        return "nothing new"
    if (size := sum(found.values())) > MAX_BYTES:
        return f"{size / 1e9:.1f} GB is too large to archive; remove {archive.parent}"
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_name(f"{archive.name}.partial-{holder}-{os.getpid()}")
    try:
        # half as many headers as the POSIX format, read twice as fast
        with tarfile.open(part, "w:gz", compresslevel=1, format=tarfile.GNU_FORMAT) as tar:
            for name in sorted(found):
                _add(tar, folder, name)
        flush(part)
        _remove_stale(archive, part.stat().st_mtime)
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return f"{len(found)} files, {archive.stat().st_size / 1e6:.0f} MB"


def _add(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    """Add one file, read at once: it may grow or vanish meanwhile (the driver's index)."""
    try:
        data = (folder / name).read_bytes()
        member = tar.gettarinfo(str(folder / name), name)
    except FileNotFoundError:
        return
    member.size, member.mtime = len(data), int(member.mtime)
    member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
    tar.addfile(member, io.BytesIO(data))


def _remove_stale(archive: Path, now: float) -> None:
    """Remove unfinished files of writers that were killed; ``now`` is by the workspace's clock."""
    for part in archive.parent.glob(f"{archive.name}.partial-*"):
        try:
            if now - part.stat().st_mtime > STALE_SECONDS:
                part.unlink()
        except OSError:
            continue
