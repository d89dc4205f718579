"""Manifest of a folder: the size and SHA-256 of each file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from launchers.system import lookup
from launchers.system.threads import each

_CHUNK = 4 * 1024 * 1024
_OPEN = ".nfs"
READERS = max(8, min(32, os.cpu_count() or 0))
"""Files digested at a time: eight hide a network's delays, and a core digests 0.9 to 1.9 GB/s."""


class Entry(NamedTuple):
    """One file."""

    size: int
    """Bytes."""
    sha256: str


class Identity(NamedTuple):
    """One file whatever its name: a link has that of its file, and a change another time."""

    device: int
    inode: int
    size: int
    """Bytes."""
    modified: int
    """Nanoseconds."""


Manifest = Mapping[str, Entry]
"""Entries by path relative to the folder, with ``/``."""


def files(folder: Path, skip: Collection[str] = ()) -> Iterator[Path]:
    """List the files and symbolic links below ``folder``; links are not followed.

    Left out are files that are deleted and still open: an NFS client names them ``.nfs...``.
    ``skip``: names directly below ``folder`` to leave out.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    found = lookup.entries(folder)
    found = {n: d for n, d in found.items() if n not in skip and not n.startswith(_OPEN)}
    yield from (folder / name for name, is_dir in found.items() if not is_dir)
    for name in (name for name, is_dir in found.items() if is_dir):
        yield from files(folder / name)


def digest_folder(
    folder: Path,
    skip: Collection[str] = (),
    *,
    follow: bool = False,
    known: Mapping[Identity, Entry] = MappingProxyType({}),
) -> dict[str, Entry]:
    """Digest all files of a folder, several at a time (``hashlib`` releases the GIL).

    One file is the only entry; ``follow`` digests the targets of symbolic links. ``known`` files
    are not read.

    Raises:
        LaunchError: IO if the storage does not answer, or a listed file is gone.
    """
    is_dir = lookup.is_dir(folder)
    found = list(files(folder, skip)) if is_dir else [folder]
    start = folder if is_dir else folder.parent

    def made(path: Path) -> Entry:
        at = path.resolve() if follow else path
        return lookup.existing(lambda: known.get(identity(path)) or entry(at), path)

    entries = each(made, found, READERS)
    return {p.relative_to(start).as_posix(): e for p, e in zip(found, entries, strict=True)}


def identity(path: Path) -> Identity:
    """Return what tells a file, or a symbolic link, from every other."""
    found = path.lstat()
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def entry(path: Path) -> Entry:
    """Digest one file; for a symbolic link, the text of its target."""
    if path.is_symlink():
        target = os.fsencode(path.readlink())
        return Entry(len(target), hashlib.sha256(b"link " + target).hexdigest())
    size, digest = read(path, hashlib.sha256())
    return Entry(size, digest)


def read(path: Path, digest: hashlib._Hash) -> tuple[int, str]:
    """Feed a file to ``digest``; return its size in bytes and the digest in hex."""
    size = 0
    with path.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def total(manifest: Manifest) -> int:
    """Return the bytes of all files."""
    return sum(e.size for e in manifest.values())


def wrong_size(folder: Path, sizes: Mapping[str, int]) -> str:
    """Name the first file that is missing or has another size, in bytes; empty if there is none."""
    for name, size in sizes.items():
        status = lookup.status(folder / name)
        if status is None:
            return f"{name} is missing"
        if status.st_size != size:
            return f"{name} has {status.st_size} bytes, not {size}"
    return ""


def verify(folder: Path, manifest: Manifest, full: bool) -> list[str]:
    """Compare a folder with its manifest; return one message for each difference.

    Files missing from the manifest are ignored: training may leave caches.
    ``full`` compares digests, otherwise only sizes.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    found = each(lambda item: _problem(folder / item[0], item[1], full), manifest.items(), READERS)
    return [f"{name}: {wrong}" for name, wrong in zip(manifest, found, strict=True) if wrong]


def _problem(path: Path, wanted: Entry, full: bool) -> str:
    found = lookup.status(path, follow=False)
    if found is not None and found.st_size != wanted.size:
        return f"{found.st_size} bytes, not {wanted.size}"
    seen = lookup.certain(lambda: entry(path), path) if found and full else wanted
    return "missing" if found is None or seen is None else "" if seen == wanted else "other content"
