"""Whether a checkpoint's files are those that its ranks have written.

Each rank notes the names, sizes and digests of its shards, and rank 0 writes an index of all shards
(torch's ``.metadata``). A server that fails over, or a second writer, may lose, cut or change a
file after its rank has flushed and noted it.
"""

import contextlib
import errno
import json
import math
import os
import pickle
import re
from bisect import bisect
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from launchers.storage import chunk_digests
from launchers.system import lookup

COMPARE_SECONDS = 1.0
"""Time in which files are compared with their digests, the ends first: a server that restarts may
lose what it has acknowledged, and keep the size. Training may wait for it."""
INDEX = ".metadata"
"""The index of PyTorch's distributed format (``torch/distributed/checkpoint/filesystem.py``)."""
SHARDS = ".distcp"
_NAMES = re.compile(rb"[\w.-]*__\d+_\d+\.distcp")
"""Names of shards in the bytes of the index, some with the byte of their length before them. It is
a pickle and not loaded: that may run any code, and the launcher has no torch."""
PART_BYTES = 65536
"""Bytes of a read, and zeros at the end of a file of weights that raise suspicion."""
_VOCABULARY = re.compile("emb|wte|head|output")
_MAY_BE_ZERO = re.compile(r"lora_|bias|(?:o|out|down|c)_proj|\b(?:w2|wo)\b")
"""Names of tensors that are zeros at first: LoRA's B, and outputs of blocks that are added."""
WEIGHTS, WEIGHTS_INDEX = ".safetensors", ".safetensors.index.json"
_BESIDE, _MOST_HOLES = 8, 1000
"""Bytes next to a hole that are read, at least one number; and holes of a file."""
_LONGEST_HEADER = 100_000_000
"""Bytes that a header of safetensors may have (its format's limit)."""


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

    ``notes``: the ranks' ``sizes`` and ``digests`` by name, if the trainer writes any.

    Returns:
        Which file differs and how, empty if none does; and the noted digests by name.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    known: dict[str, str] = {}
    noted = list(notes)
    wrong = (
        _against_notes(sizes, noted, known)
        or _without_index(sizes, is_noted=bool(noted))
        or _against_index(folder, sizes)
        or _weights(folder, sizes)
    )
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


def _without_index(sizes: Mapping[str, int], *, is_noted: bool) -> str:
    """Return which folder of shards has no index, or an empty one: its shards cannot be read."""
    for home in dict.fromkeys(Path(name).parent for name in sizes if name.endswith(SHARDS)):
        size = sizes.get((home / INDEX).as_posix())
        if size == 0 or (size is None and is_noted):
            return f"{home / INDEX} is {'missing' if size is None else 'empty'}"
    return ""


def _weights(folder: Path, sizes: Mapping[str, int]) -> str:
    """Compare weights with their index, and each file's size with its header.

    A file whose header is not that of safetensors (https://github.com/huggingface/safetensors) is
    not judged.
    """
    for name in (each for each in sizes if each.endswith(WEIGHTS_INDEX)):
        home = Path(name).parent
        with contextlib.suppress(ValueError, AttributeError, KeyError, TypeError):
            listed = json.loads(lookup.text(folder / name) or "")["weight_map"].values()
            named = ((home / each).as_posix() for each in sorted(map(str, listed)))
            if absent := next((each for each in named if each not in sizes), ""):
                return f"{absent} is missing, and {name} names it"
    for name in (each for each in sizes if each.endswith(WEIGHTS)):
        size, wanted = sizes[name], header(folder / name, sizes[name]).size
        if wanted > size or (size == 0 and wanted == 0):
            return f"{name} has {size} bytes, and its header says {wanted or 'more'}"
    return ""


class Header(NamedTuple):
    """What the header of a file of weights says."""

    size: int
    """Bytes of the whole file; 0 without a header of safetensors."""
    tensors: Mapping[str, Any]
    """Entries (``dtype``, ``shape``, ``data_offsets``) by name; empty where the header is cut."""

    @property
    def start(self) -> int:
        """Return where the tensors begin in the file."""
        ends = (each["data_offsets"][1] for each in self.tensors.values())
        return self.size - max(ends, default=0)


def header(path: Path, size: int) -> Header:
    """Read the header of safetensors (https://github.com/huggingface/safetensors).

    As its reader, takes none whose tensors overlap, leave bytes out or need others by their shapes.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    length = int.from_bytes(lookup.begin(path, 8) or b"", "little")
    if not 0 < length <= _LONGEST_HEADER or size < 8:
        return Header(0, {})
    data = lookup.begin(path, 8 + length) or b""
    if len(data) < 8 + length:
        return Header(8 + length, {})
    with contextlib.suppress(ValueError, AttributeError, LookupError, TypeError):
        tensors, end = {"__metadata__": None} | json.loads(data[8:]), 0
        metadata = tensors.pop("__metadata__")
        texts = () if metadata is None else metadata.values()
        held = [(*each["data_offsets"], each["dtype"], each["shape"]) for each in tensors.values()]
        for begin, after, kind, shape in sorted(held):
            bits = 8 if kind == "BOOL" else int(re.findall(r"\d+", kind)[0])
            if begin != end or 8 * (after - begin) != bits * math.prod(shape):
                return Header(0, {})
            end = after
        if all(isinstance(text, str) for text in texts):
            return Header(8 + length + end, tensors)
    return Header(0, {})


def zero_tail(path: Path, head: Header) -> str:
    """Return the tensor from which on the end of a file is zeros; empty if the weights look whole.

    A download that stopped after its space was allocated leaves them, or a hole: the size is right.
    Of a whole file one part is read. Zeros are no fault in the last rows of a vocabulary, which may
    be padding, nor in tensors of one dimension and those that begin as zeros (``_MAY_BE_ZERO``).

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    start = head.start
    if head.size - start < PART_BYTES or any(file_part(path, head.size - PART_BYTES)):
        return ""
    for name in sorted(head.tensors, key=lambda n: head.tensors[n]["data_offsets"], reverse=True):
        begin, after = (start + at for at in head.tensors[name]["data_offsets"])
        middle = (begin + after) // 2 if _VOCABULARY.search(name) else begin
        if any(file_part(path, max(begin, after - PART_BYTES), after)):
            return ""
        if len(head.tensors[name]["shape"]) < 2 or begin == after:
            continue
        if not any(file_part(path, middle, after)):
            if not _MAY_BE_ZERO.search(name):
                return name
        elif middle == begin:
            return name
        else:
            return ""
    return ""


def lost(path: Path, head: Header) -> str:
    """Return what shows that a storage has lost a part of a file of weights; empty if nothing does.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    if tensor := zero_tail(path, head):
        return f"ends in zeros, from within {tensor} on"
    return f"has a hole within {tensor}" if (tensor := holed(path, head)) else ""


def holed(path: Path, head: Header) -> str:
    """Return a tensor in which a hole of a sparse file begins or ends; empty if none is damage.

    Writes that a crash has lost leave holes with weights next to them. A file system that does
    not store zeros makes holes of whole blocks: they begin and end amid zeros, or between rows.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    spans = sorted((*each["data_offsets"], name) for name, each in head.tensors.items())
    cut, whole = list[str](), 0
    for begin, end in _holes(path, head.size):
        if any(file_part(path, begin, end)):  # the file system is wrong
            continue
        for edge, side in ((begin, -1), (end, 0)):
            at = edge - head.start
            first, after, name = spans[max(0, bisect(spans, (at,)) - 1)]
            shape = head.tensors[name]["shape"]
            row = (after - first) // max(1, math.prod(shape[:-1]))
            if not first < at < after or not (at - first) % row:
                continue
            if any(file_part(path, edge + side * _BESIDE, edge + (side + 1) * _BESIDE)):
                cut.append(name)
            else:
                whole += 1
    return cut[0] if len(cut) > whole else ""


def _holes(path: Path, size: int) -> list[tuple[int, int]]:
    """Return begin and end of the first holes of a file; none where its file system tells none."""

    def ask() -> list[tuple[int, int]]:
        found, at = list[tuple[int, int]](), 0
        with path.open("rb", buffering=0) as handle:
            while len(found) < _MOST_HOLES and (begin := seek(handle, at, os.SEEK_HOLE)) < size:
                at = seek(handle, begin, os.SEEK_DATA)
                found.append((begin, at))
        return found

    def seek(handle: FileIO, at: int, what: int) -> int:
        try:
            return handle.seek(at, what)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.EINVAL, errno.EOPNOTSUPP):  # no more, or unknown
                return size
            raise

    return lookup.certain(ask, path) or []


def file_part(path: Path, begin: int, end: int | None = None) -> bytes:
    """Return at most ``PART_BYTES`` of a file from an offset."""
    size = PART_BYTES if end is None else min(PART_BYTES, end - begin)
    return lookup.begin(path, size, begin) or b""


def _against_index(folder: Path, sizes: Mapping[str, int]) -> str:
    for index in (name for name in sizes if Path(name).name == INDEX):
        data, home = lookup.data(folder / index) or b"", Path(index).parent
        listed = {name for name in sizes if Path(name).parent == home}
        named: set[str] = set()
        for found in sorted({name.decode() for name in _NAMES.findall(data)}):
            known = {(home / each).as_posix() for each in (found, found[1:])} & listed
            if not known:
                shard = (home / found[found.index("__") :]).as_posix()
                return f"{shard} is missing, and {index} names it"
            named |= known
        if not data.startswith(pickle.PROTO):
            continue
        if not data.endswith(pickle.STOP):
            return f"{index} is cut"
        own = (name for name in listed if sizes[name] and name.endswith(SHARDS))
        if free := sorted(name for name in own if name not in named):
            return f"{free[0]} is not named by {index}"
    return ""


def _against_digests(folder: Path, sizes: Mapping[str, int], known: Mapping[str, str]) -> str:
    own = {name: sizes[name] for name in known}
    found = lookup.certain(
        lambda: chunk_digests.compare(folder, own, known, COMPARE_SECONDS), folder
    )
    return "a shard is missing" if found is None else "".join(found.damaged[:1])
