"""``python -m tests.faults.errno_matrix``: each error of a file system in each read of our state.

Each operation of ``operations.py`` is run without a fault, then with one fault per cell: a call (of
``READS`` or ``WRITES``) on one path fails with one errno, two times or always. Transient faults of
reads must not change the outcome, and permanent ones must end with exit code 74. No cell may delete
more than the run without a fault, or end with a user's code; and the next run must end as one that
met no fault.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from rich.console import Console
from rich.table import Table

from launchers.exits import USER, Exit, LaunchError
from launchers.storage import disk
from launchers.system import lookup
from launchers.upstream.record import LAUNCHER
from tests.faults.operations import OPERATIONS, Operation

READS = ("stat", "open", "read", "scandir")
WRITES = ("create", "rename", "fsync")
# of NFS, Lustre and FUSE: server, handle and mount
_OF_MOUNTS = "EIO ESTALE ETIMEDOUT ENOTCONN ENODEV EHOSTDOWN EREMOTEIO ENXIO"
# rights that an id mapping or a token has lost for a while, and limits of the node
_OF_NODES = "EACCES EPERM EBUSY EMFILE ENOMEM ELOOP ENAMETOOLONG ESHUTDOWN"
ERRNOS = tuple(getattr(errno, name) for name in f"{_OF_MOUNTS} {_OF_NODES}".split())
RIGHTS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
"""Of a write they are the user's to correct (``storage/disk.py``): not injected into writes."""
TRANSIENT = 2
"""Calls that a transient fault breaks."""
Outcome = Literal["as without", "74", "restart", "user code", "other answer"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    operation: str
    call: str
    path: str
    number: int
    is_permanent: bool
    outcome: Outcome
    deleted: tuple[str, ...]
    """Files that are gone, and would not be without the fault."""
    next: Outcome
    """Of the same operation again, without the fault."""
    seen: str = ""

    @property
    def is_right(self) -> bool:
        if self.deleted or self.next != "as without":
            return False
        if self.outcome in ("user code", "other answer"):
            return False
        if self.call in WRITES:  # a write is not repeated
            return True
        return self.outcome == "as without" or (self.is_permanent and self.outcome == "74")


class Seam:
    """Breaks one call on one path, and notes the paths of all calls."""

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self.call, self.path, self.number, self.left, self.hits = "", "", 0, 0.0, 0
        self.seen: dict[str, list[str]] = defaultdict(list)

    def meet(self, call: str, path: object) -> None:
        name = _name(path)
        if not name.startswith(self.root):
            return
        name = name.removeprefix(self.root)
        if name not in self.seen[call]:
            self.seen[call].append(name)
        if call == self.call and name == self.path and self.left > 0:
            self.left, self.hits = self.left - 1, self.hits + 1
            raise OSError(self.number, os.strerror(self.number), self.root + name)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Route all calls of ``os``, ``io`` and ``pathlib`` through the seam."""
        calls = {
            "stat": ("os.stat", "os.lstat", "os.readlink"),
            "scandir": ("os.scandir", "os.listdir"),
            "rename": ("os.rename", "os.replace"),
            "fsync": ("os.fsync", "os.fdatasync"),
        }
        with ExitStack() as stack:
            stack.enter_context(mock.patch.multiple(lookup, monotonic=CLOCK.now, sleep=CLOCK.sleep))
            # outside of the folder, and half of the time
            replaced: dict[str, Any] = {
                "launchers.upstream.code_identity.identity": lambda *_, **__: {LAUNCHER: ""},
                "time.sleep": partial(CLOCK.sleep),
                "time.monotonic": partial(CLOCK.now),
                "os.open": partial(self._through, "create", os.open),
            }
            for call, names in calls.items():
                for name in names:
                    replaced[name] = partial(self._through, call, _function(name))
            replaced |= dict.fromkeys(("io.open", "builtins.open"), partial(self._open, open))
            for name, function in replaced.items():
                stack.enter_context(mock.patch(name, function))
            yield

    def _through(self, call: str, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self.meet(call, given[0] if given else ".")
        return real(*given, **named)

    def _open(self, real: Callable[..., Any], path: Any, *given: Any, **named: Any) -> Any:
        mode = given[0] if given else named.get("mode", "r")
        is_read = "r" in mode and "+" not in mode
        self.meet("open" if is_read else "create", path)
        handle = real(path, *given, **named)
        if is_read:
            try:
                self.meet("read", path)
            except OSError as error:
                handle.close()
                return _Unreadable(error)
        return handle


class _Unreadable:
    """A file that opens, and whose data cannot be read."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def __enter__(self) -> _Unreadable:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator[str]:
        raise self.error

    def close(self) -> None:
        """Do nothing: the file is closed."""

    def fail(self, *_: object) -> bytes:
        raise self.error

    read = readline = seek = fileno = fail


class _Clock:
    """A clock that only sleeping moves."""

    time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


CLOCK = _Clock()


def matrix() -> list[Cell]:
    return [cell for each in OPERATIONS for cell in cells_of(each)]


def cells_of(operation: Operation) -> list[Cell]:
    memory = Path("/dev/shm")  # a flush there takes no time
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        return list(_cells(operation, Path(scratch) / "w"))


def _cells(operation: Operation, root: Path) -> Iterator[Cell]:
    seam, run = Seam(root), _Run(operation, root)
    normal, gone, _ = run(seam)
    assert not isinstance(normal, BaseException), (operation.name, normal)
    for call in (*READS, *WRITES):
        paths = seam.seen[call]
        numbers = [n for n in ERRNOS if call in READS or n not in RIGHTS]
        for place, number in enumerate(numbers if paths else ()):
            for is_permanent in (False, True):
                fault = Seam(root)
                fault.call, fault.path = call, paths[place * 7 % len(paths)]
                fault.number = number
                fault.left = float("inf") if is_permanent else TRANSIENT
                found, without, after = run(fault)
                if fault.hits:
                    yield Cell(
                        operation=operation.name,
                        call=call,
                        path=fault.path,
                        number=number,
                        is_permanent=is_permanent,
                        outcome=_outcome(found, normal),
                        deleted=tuple(sorted(without - gone)),
                        next=_outcome(after, normal),
                        seen=repr(found)[:200],
                    )


class _Run:
    """Runs an operation again and again; its folder is copied again once it has changed."""

    def __init__(self, operation: Operation, root: Path) -> None:
        self._root, self._whole = root, root.with_name("whole")
        for each in (root, self._whole):
            shutil.rmtree(each, ignore_errors=True)
        root.mkdir()
        self._act = operation.prepare(root)
        shutil.copytree(root, self._whole)
        self._before = _files(root)

    def __call__(self, seam: Seam) -> tuple[object, set[str], object]:
        """Return the answer or the error, the files that are gone, and the next run's answer."""
        found, after = self._once(seam), _files(self._root)
        again = self._once(Seam(self._root))
        if _files(self._root) != self._before:
            shutil.rmtree(self._root)
            shutil.copytree(self._whole, self._root)
        return found, set(self._before) - set(after), again

    def _once(self, seam: Seam) -> object:
        with seam.patched():
            try:
                with disk.reporting(self._root):  # as the command does
                    return self._act()
            except Exception as error:
                return error


def _outcome(found: object, normal: object) -> Outcome:
    if isinstance(found, LaunchError):
        return "user code" if found.code in USER else "74" if found.code == Exit.IO else "restart"
    if isinstance(found, Exception):
        return "restart"
    return "as without" if found == normal else "other answer"


def _files(root: Path) -> dict[str, int]:
    return {
        os.path.join(folder, name): os.lstat(os.path.join(folder, name)).st_mtime_ns  # noqa: PTH118
        for folder, _, names in os.walk(root)
        for name in names
    }


def _name(path: object) -> str:
    if isinstance(path, int):
        try:
            return os.path.realpath(f"/proc/self/fd/{path}")
        except OSError:
            return ""
    return os.fspath(path) if isinstance(path, str | os.PathLike) else ""


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(os, name.partition(".")[2])
    return found


def table(cells: list[Cell]) -> Table:
    names = ("as without", "74", "restart", "user code", "other answer")
    made = Table("operation", "cells", *names, "deleted", title=f"{len(ERRNOS)} errnos")
    for operation in (*dict.fromkeys(each.operation for each in cells), "all"):
        own = [each for each in cells if operation in (each.operation, "all")]
        counts = Counter(each.outcome for each in own)
        deleted = sum(len(each.deleted) for each in own)
        made.add_row(operation, *map(str, (len(own), *(counts[n] for n in names), deleted)))  # type: ignore[index]
    return made


def main() -> int:
    logging.disable(logging.CRITICAL)
    cells = matrix()
    console = Console(width=120)
    console.print(table(cells))
    wrong = [each for each in cells if not each.is_right]
    for each in wrong[:20]:
        console.print(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
