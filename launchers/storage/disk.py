"""File system errors as exit codes, free space, sizes, flushes, removal."""

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import IO

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.storage import manifest
from launchers.system import lookup
from launchers.system.atomic_file import flush
from launchers.system.remedies import SPACE_REMEDY, STORAGE_REMEDY
from launchers.system.threads import each

_FAULT = (Exit.IO, STORAGE_REMEDY, "disk-fault")
FULL = (errno.ENOSPC, errno.EDQUOT)
FAULTS = (errno.EIO, errno.ESTALE, errno.ENODEV, errno.EREMOTEIO)
"""Errors of a full disk, and of a broken one; sockets and terminals have none of them."""
_MEANING = {
    **dict.fromkeys(FULL, (Exit.QUOTA, SPACE_REMEDY, "disk-full")),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        (
            Exit.QUOTA,
            "grant the pod's user write access: podSecurityContext.fsGroup or export options",
            "disk-permission",
        ),
    ),
    **dict.fromkeys((*FAULTS, errno.ENXIO, errno.ENOTCONN), _FAULT),
    errno.ENAMETOOLONG: (Exit.CONFIG, "use shorter names in the recipe", "disk-name-length"),
}

_TRIES = 20
"""Times that a folder is removed from which another process removes files."""
FLUSHED_BYTES = 1 << 30
"""Bytes between two flushes. 244 GB on a disk of 0.1 GB/s take 41 minutes, and the limit of a hang
is 30; 1 GiB takes 11 s."""


def meaning(error: OSError, place: Path) -> LaunchError | None:
    """Translate an error of a file system into a ``LaunchError``; None for other errors.

    A full or read-only disk is the user's to correct; other errors that name a file count as a
    restart, but for one outside of ``place`` that is missing or exists.
    """
    found = _MEANING.get(error.errno or 0)
    if found is None:
        if error.filename is None:
            return None
        is_outside = not Path(os.fsdecode(error.filename)).is_relative_to(place)
        if is_outside and isinstance(error, (*lookup.ABSENT, FileExistsError)):
            return None
        found = _FAULT
    code, remedy, id = found
    what = error.strerror or os.strerror(error.errno or 0)
    return LaunchError(code, f"{error.filename or place}: {what}", remedy, id=id)


@contextmanager
def reporting(place: Path) -> Iterator[None]:
    """Raise errors of a full, read-only or broken disk as ``LaunchError``."""
    try:
        yield
    except OSError as error:
        found = meaning(error, place)
        if found is None:
            raise
        raise found from error


def free(folder: Path) -> int | None:
    """Return the bytes that this user may write on a folder's volume.

    None where the file system does not say: FUSE's default is a volume of no size, as of buckets.
    """
    found = shutil.disk_usage(folder)
    return found.free if found.total else None


def require_space(folder: Path, needed: int) -> None:
    """Raise if the volume is known to have less free space than needed.

    Raises:
        LaunchError: QUOTA with both numbers.
    """
    left = free(folder)
    if left is not None and needed > left:
        raise LaunchError(
            Exit.QUOTA,
            f"{folder} has {left / 1e9:.3f} GB free, but {needed / 1e9:.3f} GB are needed",
            SPACE_REMEDY,
            id="disk-space",
        )


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, if missing, so that a power loss does not remove them.

    Raises:
        LaunchError: CONFIG if one is a file; IO if one is a link to nothing.
    """
    if not lookup.is_dir(folder):
        make_folder(folder.parent)
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError as error:
            if not lookup.exists(folder):  # a link to what is not mounted
                raise lookup.unknown(error, folder) from None
            raise LaunchError(
                Exit.CONFIG,
                f"{folder} is a file, and the launcher needs a folder there",
                "rename the file, or choose another workspace",
                id="disk-not-folder",
            ) from None
        flush(folder.parent)


def flush_tree(folder: Path) -> None:
    """Flush all files and folders below ``folder`` to the disk, folders last.

    Raises:
        OSError, LaunchError: of the disk, also where a folder cannot be listed.
    """
    found = [p for p in manifest.files(folder) if not lookup.is_link(p)]
    each(flush, found)
    _flush_folders(folder)


def _flush_folders(folder: Path) -> None:
    for name, is_dir in lookup.entries(folder).items():
        if is_dir:
            _flush_folders(folder / name)
    flush(folder)


def size(folder: Path, unread: Callable[[OSError], object] = lambda _: None) -> int:
    """Return the bytes of all files below ``folder``, an estimate for people.

    What cannot be read counts 0, and is given to ``unread``.
    """
    found = 0
    for root, _, names in os.walk(folder, onerror=unread):
        for name in names:
            try:
                found += (Path(root) / name).lstat().st_size
            except OSError as error:
                unread(error)
    return found


def held(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, on which a decision depends.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    found = (lookup.status(path, follow=False) for path in manifest.files(folder))
    return sum(status.st_size for status in found if status is not None)


def note_use(folder: Path) -> None:
    """Set a cache folder's modification time to now, for cleanup by age."""
    with suppress(OSError):  # missing, or a read-only workspace
        os.utime(folder)


def remove(path: Path) -> None:
    """Remove a file or folder if it exists; another process may be doing so, too."""
    for left in reversed(range(_TRIES)):
        found = lookup.status(path, follow=False)
        if found is None or not S_ISDIR(found.st_mode):
            path.unlink(missing_ok=True)
            return
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if not left:
                raise


def keep(folder: Path, files: Iterable[Path] | None = None) -> None:
    """Rename a folder, or these files of it, to ``<folder>.kept-<time>``: they may be a user's."""
    aside = folder.with_name(f"{folder.name}.kept-{time.time_ns()}")
    for path in [folder] if files is None else files:
        to = aside / path.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        if files is None:
            path.rename(to)
        else:
            shutil.move(path, to)  # a folder that is a link leads to another volume
        logs.warning("renamed, not known to be the launcher's", path=path, now=to)


class GradualFlush:
    """Flushes a large file while it is written; otherwise its end waits for all of it, silently."""

    def __init__(self, file: IO[bytes], flushed: Callable[[], None]) -> None:
        """Begin with nothing written."""
        self._file, self._flushed, self._done = file, flushed, 0

    def advance(self) -> None:
        """Flush if ``FLUSHED_BYTES`` have been written since the last flush.

        Raises:
            OSError: of the disk.
        """
        position = self._file.tell()
        if position - self._done < FLUSHED_BYTES:
            return
        self._file.flush()
        os.fdatasync(self._file.fileno())
        self._done = position
        self._flushed()
