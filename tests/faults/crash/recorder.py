"""Record of what code does to a folder, in an order from which each crash can be constructed.

An audit hook (``sys.addaudithook``) runs before each operation of Python on files; ``os.fsync`` is
wrapped. At each of them the folder is compared with its last snapshot: the difference is what was
done between, without interpretation of the operation's arguments. Files are known by their inode,
which is kept open so that its number is not used again.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Directory = dict[str, int]
"""Inode by name."""


@dataclass(frozen=True, kw_only=True)
class Change:
    entries: tuple[tuple[int, str, int | None], ...]
    """Directory, name, and the inode that the name has now; None if it has none."""
    data: tuple[tuple[int, bytes], ...]
    """Inode of a file and its content now."""
    made: frozenset[int] = frozenset()
    """Inodes of new directories."""


@dataclass(frozen=True)
class Sync:
    inode: int


@dataclass(frozen=True)
class Promise:
    """Guarantee of the code from here on."""

    name: str
    value: object


Event = Change | Sync | Promise


@dataclass
class Recording:
    """Events in a folder since it was empty."""

    folder: Path
    ignores_fsync: bool = False
    """True if ``fsync`` is not recorded: the code looks as if it never called it."""
    events: list[Event] = field(default_factory=list)
    root: int = 0
    _directories: dict[int, Directory] = field(default_factory=dict)
    _files: dict[int, bytes] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)

    def promise(self, name: str, value: object) -> None:
        """Note what holds from here on, even after a crash."""
        with _looking():
            self.look()
            self.events.append(Promise(name, value))

    def sync(self, inode: int) -> None:
        """Note an ``fsync`` that has returned."""
        self.look()
        if not self.ignores_fsync and (inode in self._directories or inode in self._files):
            self.events.append(Sync(inode))

    def look(self) -> None:
        """Compare the folder with the last snapshot; record the difference."""
        directories, files = self._snapshot()
        entries = [
            (inode, name, now.get(name))
            for inode, now in directories.items()
            for before in [self._directories.get(inode, {})]
            for name in sorted(before.keys() | now.keys())
            if before.get(name) != now.get(name)
        ]
        data = [(inode, now) for inode, now in files.items() if self._files.get(inode, b"") != now]
        made = frozenset(directories.keys() - self._directories.keys() - {self.root})
        if entries or data or made:
            self.events.append(Change(entries=tuple(entries), data=tuple(data), made=made))
        self._directories |= directories
        self._files |= files

    def _snapshot(self) -> tuple[dict[int, Directory], dict[int, bytes]]:
        directories: dict[int, Directory] = {}
        files: dict[int, bytes] = {}
        todo = [self.folder]
        while todo:
            folder = todo.pop()
            own = self._hold(folder)
            self.root = self.root or own
            directories[own] = {}
            for name in os.listdir(folder):  # noqa: PTH208 - pathlib's would be recorded again
                path = folder / name
                inode = self._hold(path)
                directories[own][name] = inode
                if path.is_dir():
                    todo.append(path)
                else:
                    files[inode] = _read(self._held[inode])
        return directories, files

    def _hold(self, path: Path) -> int:
        inode = os.lstat(path).st_ino
        if inode not in self._held:
            self._held[inode] = os.open(path, os.O_RDONLY)
        return inode

    def close(self) -> None:
        for handle in self._held.values():
            os.close(handle)


_lock = threading.RLock()
_current: Recording | None = None
_is_looking = False
_fsync = os.fsync


@contextmanager
def recording(folder: Path, *, ignores_fsync: bool = False) -> Iterator[Recording]:
    """Record what the block does below ``folder``, which is empty."""
    global _current
    _install()
    made = Recording(folder, ignores_fsync)
    with _looking():
        made.look()
        _current = made
    try:
        yield made
    finally:
        with _looking():
            _current = None
            made.look()
            made.close()


@contextmanager
def _looking() -> Iterator[None]:
    """Hold the lock; what happens inside is not recorded."""
    global _is_looking
    with _lock:
        _is_looking = True
        try:
            yield
        finally:
            _is_looking = False


def _install() -> None:
    if os.fsync is _fsync:
        sys.addaudithook(_audit)
        vars(os)["fsync"] = _recorded_fsync


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _current is None or not event.startswith(("open", "os.")):
        return
    with _lock:
        if _current is None or _is_looking:  # of this thread: the lock is its own
            return
        with _looking():
            _current.look()


def _recorded_fsync(handle: Any) -> None:
    _fsync(handle)
    with _looking():
        if _current is not None:
            _current.sync(os.fstat(handle).st_ino)


def _read(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)
