"""Questions to the file system with three answers: yes, no, or unknown.

``Path.exists``, ``Path.glob`` and ``os.walk`` take some errors of a storage for "there is none".
Code that deletes, trains again or refuses because of such an answer uses this module: a missing
file is "no", any other error is retried, then ends the launcher with ``Exit.IO``, which counts as
a restart.
"""

import errno
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import TypeVar

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.system.remedies import MOUNT_REMEDY

T = TypeVar("T")

SECONDS = 30.0
"""Time from the first error within which a question is repeated: longer than the failover of an
NFS server's address, shorter than the limits of the gang."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the first repetition, doubled after each one, and their upper bound."""
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors that are the answer "no": nothing has this name, or something of another kind."""
ID = "storage-unknown"
monotonic, sleep = time.monotonic, time.sleep
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the repetitions of all questions of this thread in the block to ``seconds`` together.

    For callers that must not wait, such as a heartbeat, or a rotation while training waits.
    """
    token = _deadline.set(stop_in(seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def stop_in(seconds: float) -> float:
    """Return the time (monotonic) of the last repetition, in ``seconds`` or as ``within`` says."""
    return min(monotonic() + seconds, _deadline.get())


def certain(ask: Callable[[], T], place: Path) -> T | None:
    """Return the answer of ``ask``; None if what it asks for does not exist.

    ``ask`` may be repeated; ``place`` is for the message of an error that names no file.

    Raises:
        LaunchError: IO, with host, path and errno, if the storage has not answered in time.
    """
    stop, pause = 0.0, FIRST_PAUSE
    while True:
        try:
            return ask()
        except ABSENT:
            return None
        except OSError as error:
            now = monotonic()
            if not stop:
                stop = stop_in(SECONDS)
                if now < stop:
                    logs.warning("storage asked again", path=place, cause=error)
            if now >= stop:
                raise unknown(error, place) from error
        sleep(min(pause, stop - now))
        pause = min(2 * pause, LONGEST_PAUSE)


def existing(ask: Callable[[], T], place: Path) -> T:
    """Return the answer of ``ask`` about files that were just seen: their absence is unknown, too.

    Raises:
        LaunchError: IO, as ``certain``.
    """
    found = certain(ask, place)
    if found is None:
        raise unknown(OSError(errno.ENOENT, "a file that was just there is gone"), place)
    return found


def unknown(error: OSError, place: Path) -> LaunchError:
    """Return the end of a launcher whose storage does not answer."""
    is_closed = error.errno in (errno.EACCES, errno.EPERM)
    remedy = "let the launcher's user read it, and its folders" if is_closed else MOUNT_REMEDY
    return LaunchError(Exit.IO, describe(error, place), remedy, id=ID)


def describe(error: OSError, place: Path) -> str:
    """Return host, path, and what the kernel says."""
    number = error.errno or 0
    what = f"{error.strerror or error} ({errno.errorcode.get(number, number)})"
    return f"{socket.gethostname()}: {error.filename or place}: {what}"


def status(path: Path, *, follow: bool = True) -> os.stat_result | None:
    """Return the status of a file or folder, of a link itself without ``follow``; None without."""
    return certain(path.stat if follow else path.lstat, path)


def exists(path: Path) -> bool:
    """Return whether there is a file or folder, at the end of a link, too."""
    return status(path) is not None


def is_dir(path: Path) -> bool:
    """Return whether there is a folder, at the end of a link, too."""
    found = status(path)
    return found is not None and S_ISDIR(found.st_mode)


def is_file(path: Path) -> bool:
    """Return whether there is a regular file, at the end of a link, too."""
    found = status(path)
    return found is not None and S_ISREG(found.st_mode)


def is_link(path: Path) -> bool:
    """Return whether there is a symbolic link."""
    found = status(path, follow=False)
    return found is not None and S_ISLNK(found.st_mode)


def data(path: Path) -> bytes | None:
    """Return a file's bytes; None without such a file."""
    return certain(path.read_bytes, path)


def begin(path: Path, size: int, at: int = 0) -> bytes | None:
    """Return a file's bytes from an offset; None without it, also for a name that none can have."""

    def ask() -> bytes:
        try:
            with path.open("rb") as handle:
                handle.seek(at)
                return handle.read(size)
        except (OSError, ValueError) as error:  # ValueError: a null byte
            if isinstance(error, ValueError) or error.errno == errno.ENAMETOOLONG:
                raise FileNotFoundError(str(path)) from None
            raise

    return certain(ask, path)


def text(path: Path) -> str | None:
    """Return a file's text (UTF-8); None without such a file.

    Raises:
        ValueError: it is not UTF-8.
    """
    return certain(lambda: path.read_text(encoding="utf-8"), path)


def entries(folder: Path) -> dict[str, bool]:
    """Return the names in a folder in order, and whether each is a folder, not a link to one.

    Empty without such a folder.
    """

    def ask() -> dict[str, bool]:
        with os.scandir(folder) as found:
            return {each.name: each.is_dir(follow_symlinks=False) for each in found}

    return dict(sorted((certain(ask, folder) or {}).items()))


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return what a folder holds under the names of a pattern, as ``Path.glob``, in order."""
    return [folder / name for name in entries(folder) if fnmatchcase(name, pattern)]
