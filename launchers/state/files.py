"""Pack the small files of a run into an archive.

Of another file only name and size are noted, in ``SIZES``; the reader makes a hole of that size, so
that a complete checkpoint is complete in the copy, too.
"""

import base64
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from launchers.exits import Exit, LaunchError
from launchers.system import lookup

SIZES = ".sizes.json"
"""Name in the archive of the JSON object of the sizes of files that it does not hold."""
UNREAD = -1
"""Size of a file or folder that could not be read."""


def walk(home: Path, below: str = "") -> Iterator[tuple[str, os.stat_result | OSError]]:
    """Yield the relative names of what a folder holds, and the status; links are not followed.

    Yields the error for a file or folder that cannot be read; what is gone meanwhile is left out.

    Raises:
        OSError: the folder itself cannot be listed.
    """
    try:
        names = sorted(each.name for each in (home / below).iterdir())
    except OSError as error:
        if not below:
            raise
        if not isinstance(error, lookup.ABSENT):
            yield below, error
        return
    for name in (f"{below}/{each}" if below else each for each in names):
        try:
            status = (home / name).lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield name, error
            continue
        if S_ISDIR(status.st_mode):
            yield from walk(home, name)
        else:
            yield name, status


def excerpt(path: Path, head: int, tail: int) -> tuple[bytes, bool]:
    """Return a file's content, and whether its middle was left out; cuts are at ends of lines."""
    with path.open("rb") as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(0)
        if size <= head + tail:
            return handle.read(), False
        first = handle.read(head)
        handle.seek(size - tail)
        last = handle.read(tail)
    first = first[: first.rfind(b"\n") + 1]
    last = last[last.find(b"\n") + 1 :]
    middle = f"[... {size - len(first) - len(last)} bytes left out ...]\n".encode()
    return first + middle + last, True


def archive(home: Path, patterns: Sequence[str], cut: int) -> bytes:
    """Return the archive; a file that is gone is left out, what can't be read has no size."""
    buffer, sizes = io.BytesIO(), {}
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:

        def add(name: str, content: bytes, changed: float = 0.0) -> None:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), int(changed)
            tar.addfile(info, io.BytesIO(content))

        for name, found in walk(home):
            path = home / name
            try:
                if isinstance(found, OSError):
                    raise found
                if not S_ISREG(found.st_mode):
                    continue
                if any(re.fullmatch(each, name) for each in patterns):
                    content = excerpt(path, cut, cut)[0] if cut else path.read_bytes()
                    add(name, content, found.st_mtime)
                else:
                    sizes[name] = found.st_size
            except FileNotFoundError:
                continue
            except OSError:
                sizes[name] = UNREAD
        add(SIZES, json.dumps(sizes).encode())
    return buffer.getvalue()


def answer(home: Path, *, limit: int, cut: int, patterns: Sequence[str]) -> bytes:
    """Return the archive in base64, in lines.

    ``cut`` bytes of both ends of a longer file stay, 0: all; ``limit`` is of an archive.

    Raises:
        LaunchError: INPUT_MISSING without such a run, USAGE if the archive is larger.
    """
    if not lookup.is_dir(home):
        cause = f"{home.parent.parent} has no runs/{home.name}"
        raise LaunchError(Exit.INPUT_MISSING, cause, "give a run's folder", id="state-run-missing")
    content = archive(home, patterns, cut)
    if len(content) > limit:
        raise LaunchError(
            Exit.USAGE,
            f"the files of {home.name} take {len(content) / 1e6:.0f} MB packed, of at most "
            f"{limit / 1e6:.0f} MB this way",
            "mount the workspace, or read through a pod that runs",
            id="state-files-size",
        )
    return base64.encodebytes(content)
