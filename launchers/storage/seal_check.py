"""Whether a checkpoint's files are those that its ranks have written.

Each rank notes the names, sizes and digests of its shards, and rank 0 writes an index of all shards
(torch's ``.metadata``). A server that fails over, or a second writer, may lose, cut or change a
file after its rank has flushed and noted it.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any

from launchers.storage import chunk_digests
from launchers.system import lookup

COMPARE_SECONDS = 1.0
"""Time in which files are compared with their digests, the ends first: a server that restarts may
lose what it has acknowledged, and keep the size. Training may wait for it."""
INDEX = ".metadata"
"""The index of PyTorch's distributed format (``torch/distributed/checkpoint/filesystem.py``)."""
SHARDS = ".distcp"
_NAMES = re.compile(rb"__\d+_\d+\.distcp")
"""Names of shards in the bytes of the index. It is a pickle and not loaded: that may run any code,
and the launcher has no torch."""


def sizes_of(folder: Path, paths: Iterable[Path]) -> dict[str, int]:
    """Return the bytes of regular files below ``folder`` by name; other paths are left out."""
    found = ((path, lookup.status(path)) for path in paths)
    return {
        path.relative_to(folder).as_posix(): status.st_size
        for path, status in found
        if status is not None and S_ISREG(status.st_mode)
    }


def disagreement(
    folder: Path, sizes: Mapping[str, int], notes: Iterable[Mapping[str, Any]]
) -> tuple[str, dict[str, str]]:
    """Compare the files of a checkpoint with its ranks' notes and its index.

    Args:
        folder: of the checkpoint.
        sizes: bytes of its files by name, as listed.
        notes: the ranks' ``sizes`` and ``digests`` by name; none of a trainer that writes none.

    Returns:
        Which file differs and how, empty if none does; and the noted digests by name.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    known: dict[str, str] = {}
    wrong = _against_notes(sizes, list(notes), known) or _against_index(folder, sizes)
    return wrong or _against_digests(folder, sizes, known), known


def _against_notes(
    sizes: Mapping[str, int], notes: list[Mapping[str, Any]], known: dict[str, str]
) -> str:
    for note in notes:
        for name, size in note.get("sizes", {}).items():
            if sizes.get(name) != size:
                seen = f"has {sizes[name]} bytes" if name in sizes else "is missing"
                return f"{name} {seen}, its rank wrote {size} bytes"
            text = note.get("digests", {}).get(name, "")
            if known.setdefault(name, text) != text:
                return f"{name} was written by two ranks"
    free = [name for name in sizes if name.endswith(SHARDS) and name not in known]
    return f"{free[0]} is in no rank's note" if notes and free else ""


def _against_index(folder: Path, sizes: Mapping[str, int]) -> str:
    for index in (name for name in sizes if Path(name).name == INDEX):
        data, home = lookup.data(folder / index) or b"", Path(index).parent
        named = {(home / name.decode()).as_posix() for name in _NAMES.findall(data)}
        if absent := sorted(named - set(sizes)):
            return f"{absent[0]} is missing, and {index} names it"
        if not data.startswith(pickle.PROTO):
            continue
        if not data.endswith(pickle.STOP):
            return f"{index} is cut"
        own = (name for name, size in sizes.items() if size and Path(name).parent == home)
        if free := [name for name in own if name.endswith(SHARDS) and name not in named]:
            return f"{free[0]} is not named by {index}"
    return ""


def _against_digests(folder: Path, sizes: Mapping[str, int], known: Mapping[str, str]) -> str:
    own = {name: sizes[name] for name in known}
    found = lookup.certain(
        lambda: chunk_digests.compare(folder, own, known, COMPARE_SECONDS), folder
    )
    return "a shard is missing" if found is None else "".join(found.damaged[:1])
