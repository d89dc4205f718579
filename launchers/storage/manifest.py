"""Manifest of a folder: the size and SHA-256 of each file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from launchers.system.threads import each

_CHUNK = 4 * 1024 * 1024


class Entry(NamedTuple):
    """One file."""

    size: int
    """Bytes."""
    sha256: str


Manifest = Mapping[str, Entry]
"""Entries by path relative to the folder, with ``/``."""


def files(folder: Path, skip: Collection[str] = ()) -> Iterator[Path]:
    """List the files and symbolic links below ``folder``; links are not followed.

    Args:
        folder: the folder to list.
        skip: names directly below ``folder`` to leave out.
    """
    for root, folders, names in os.walk(folder):
        here = Path(root)
        links = [n for n in folders if (here / n).is_symlink()]
        folders[:] = sorted(n for n in folders if n not in links)
        if here == folder:
            folders[:] = [n for n in folders if n not in skip]
            names = [n for n in names if n not in skip]
        yield from (here / n for n in sorted([*names, *links]))


def digest_folder(
    folder: Path, skip: Collection[str] = (), *, follow: bool = False
) -> dict[str, Entry]:
    """Digest all files of a folder, several at a time (``hashlib`` releases the GIL).

    Args:
        folder: a folder, or one file, which becomes the only entry.
        skip: names directly below ``folder`` to leave out.
        follow: digest the targets of symbolic links.
    """
    found = list(files(folder, skip)) if folder.is_dir() else [folder]
    start = folder if folder.is_dir() else folder.parent
    entries = each(lambda path: entry(path.resolve() if follow else path), found)
    return {p.relative_to(start).as_posix(): e for p, e in zip(found, entries, strict=True)}


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
    """Return the bytes of all files.

    >>> total({"a": Entry(1, ""), "b": Entry(2, "")})
    3
    """
    return sum(e.size for e in manifest.values())


def verify(folder: Path, manifest: Manifest, full: bool) -> list[str]:
    """Compare a folder with its manifest; return one message for each difference.

    Files missing from the manifest are ignored: training may leave caches.

    Args:
        folder: the folder to compare.
        manifest: the expected files.
        full: compare digests; otherwise only sizes.
    """
    found = each(lambda item: _problem(folder / item[0], item[1], full), manifest.items())
    return [f"{name}: {wrong}" for name, wrong in zip(manifest, found, strict=True) if wrong]


def _problem(path: Path, wanted: Entry, full: bool) -> str:
    try:
        size = path.lstat().st_size
        if size != wanted.size:
            return f"{size} bytes, not {wanted.size}"
        return "other content" if full and entry(path) != wanted else ""
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return "missing"
