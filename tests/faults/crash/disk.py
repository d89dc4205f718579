"""States that a disk may have after a crash.

After ``fsync`` of a file its content is there, after ``fsync`` of a directory its names are. Of
everything later, any part may be there: of each directory the first so many changes of names, and
of each file an earlier content, a part of the new one, or zeros of the new length. Directories and
files are independent of each other, which is weaker than what ext4 or XFS keep.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.crash.recorder import Change, Event, Promise, Sync

Entry = tuple[str, int | None]


@dataclass
class _File:
    synced: bytes = b""
    later: list[bytes] = field(default_factory=list)


@dataclass
class _Folder:
    synced: dict[str, int] = field(default_factory=dict)
    later: list[tuple[Entry, ...]] = field(default_factory=list)
    """Changes of names; those of one rename belong together."""


@dataclass
class Disk:
    """The disk after the first so many events: what is safe, and what is not yet."""

    root: int
    files: dict[int, _File] = field(default_factory=dict)
    folders: dict[int, _Folder] = field(default_factory=dict)
    promises: dict[str, object] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        if isinstance(event, Promise):
            self.promises[event.name] = event.value
        elif isinstance(event, Sync):
            self._sync(event.inode)
        else:
            self._change(event)

    def _sync(self, inode: int) -> None:
        if inode in self.files:
            file = self.files[inode]
            file.synced, file.later = (file.later or [file.synced])[-1], []
        elif inode in self.folders:
            folder = self.folders[inode]
            folder.synced, folder.later = _names(folder, len(folder.later)), []

    def _change(self, change: Change) -> None:
        for inode in change.made:
            self.folders[inode] = _Folder()
        by_folder: dict[int, list[Entry]] = {}
        for folder, name, inode_now in change.entries:
            by_folder.setdefault(folder, []).append((name, inode_now))
        for folder, entries in by_folder.items():
            self.folders.setdefault(folder, _Folder()).later.append(tuple(entries))
        for inode, content in change.data:
            self.files.setdefault(inode, _File()).later.append(content)


def _names(folder: _Folder, count: int) -> dict[str, int]:
    found = dict(folder.synced)
    for entries in folder.later[:count]:
        for name, inode in entries:
            if inode is None:
                found.pop(name, None)
            else:
                found[name] = inode
    return found


Choose = Callable[[int], int]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way in which unsynced changes reach the disk or not."""

    names: Choose
    contents: Choose
    torn: Callable[[bytes], bytes] = lambda content: content
    """Damage of a content that was not synced."""


def variants(seed: int, count: int) -> Sequence[Variant]:
    """Return the extreme cases, and ``count`` random ones."""
    all_, none = (lambda n: n), (lambda n: 0)
    fixed = [
        Variant(names=all_, contents=all_),
        Variant(names=none, contents=none),
        Variant(names=all_, contents=none),
        Variant(names=none, contents=all_),
        Variant(names=all_, contents=all_, torn=lambda c: c[: len(c) // 2]),
        Variant(names=all_, contents=all_, torn=lambda c: bytes(len(c))),
    ]
    return [*fixed, *(_random(random.Random(f"{seed} {i}")) for i in range(count))]


def _random(chance: random.Random) -> Variant:
    def torn(content: bytes) -> bytes:
        kind, cut = chance.randrange(3), chance.randint(0, len(content))
        if kind == 0:
            return content
        return content[:cut] + (bytes(len(content) - cut) if kind == 1 else b"")

    def some(most: int) -> int:
        return chance.randint(0, most)

    return Variant(names=some, contents=some, torn=torn)


def write(disk: Disk, variant: Variant, target: Path) -> None:
    """Write the disk after a crash into an empty folder."""
    contents: dict[int, bytes] = {}
    for inode, file in disk.files.items():
        chosen = variant.contents(len(file.later))
        contents[inode] = variant.torn(file.later[chosen - 1]) if chosen else file.synced
    _write(disk, variant, disk.root, target, contents)


def _write(
    disk: Disk, variant: Variant, inode: int, target: Path, contents: dict[int, bytes]
) -> None:
    folder = disk.folders.get(inode, _Folder())
    for name, child in _names(folder, variant.names(len(folder.later))).items():
        path = target / name
        if child in disk.folders:
            path.mkdir()
            _write(disk, variant, child, path, contents)
        else:
            path.write_bytes(contents.get(child, b""))
