"""The store of reference log-probabilities on the workspace, shared by attempts and runs.

A store is a folder named by the digest of everything its numbers depend on (``fingerprint.py``)::

    facts.json     these dependencies, so that people and error messages can name a difference
    parts/*.bin    results of a pass so far; one file per writer and flush, so that none is shared
    pairs-*.bin    all pairs in order of their ids; named by its digest, because two runs may write
                   at the same time and their numbers differ by rounding
    complete.json  written last: the file that is valid, and the cost of the pass

An entry is a pair's id and two float32, 24 bytes: 40,000 pairs are 1 MB.
"""

import hashlib
import json
import math
import struct
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from launchers.exits import Exit, LaunchError
from launchers.reference.pairs import SIZE
from launchers.system import lookup
from launchers.system.atomic_file import known_object, read_object, replace, torn

Pairs = dict[bytes, tuple[float, float]]
"""Map of a pair's id to the summed log-probabilities of chosen and rejected, in nats."""

TOLERANCE = 1e-2
"""Tolerated difference between two entries of one id, relative for values above 1: kernels choose
their order of summation by a batch's shape, and a bf16 sum of 1,000 tokens changes by less."""
_ENTRY = struct.Struct(f"<{SIZE}sff")
_SUM = 32
RESTORE = "set recipe.reference: online"
"""What continues a run whose store is torn."""
_FACTS, _COMPLETE, _PARTS = "facts.json", "complete.json", "parts"


def pack(pairs: Mapping[bytes, tuple[float, float]]) -> bytes:
    """Return entries as bytes, in order of their ids.

    >>> len(pack({b"i" * 16: (-1.0, -2.0)}))
    24
    """
    return b"".join(_ENTRY.pack(name, *pairs[name]) for name in sorted(pairs))


def unpack(data: bytes) -> Pairs:
    """Return the entries of some bytes.

    Raises:
        ValueError: they end within an entry.
    """
    if len(data) % _ENTRY.size:
        raise ValueError(f"{len(data)} bytes are not a multiple of {_ENTRY.size}")
    return {name: (chosen, rejected) for name, chosen, rejected in _ENTRY.iter_unpack(data)}


def add(pairs: Pairs, others: Iterable[tuple[bytes, tuple[float, float]]], folder: Path) -> None:
    """Add entries of the store in ``folder``; of two entries of one pair the first is kept.

    Raises:
        LaunchError: DATA when a value is not finite, or when two entries of one pair differ.
    """
    for name, values in others:
        if not all(math.isfinite(value) for value in values):
            raise LaunchError(
                Exit.DATA,
                f"the reference's log-probability of pair {name.hex()} is {values}",
                "check the model's weights and the pair",
                id="reference-not-finite",
            )
        known = pairs.setdefault(name, values)
        if any(differ(*both) for both in zip(known, values, strict=True)):
            raise LaunchError(
                Exit.DATA,
                f"pair {name.hex()} has log-probabilities {known} and {values}, more than "
                f"{TOLERANCE:g} apart: two different models wrote to one store",
                f"remove {folder}",
                id="reference-two-models",
            )


def differ(one: float, other: float) -> bool:
    """Return whether two log-probabilities of one pair differ by more than rounding."""
    return abs(one - other) > TOLERANCE * max(1.0, abs(one), abs(other))


def begin(folder: Path, facts: Mapping[str, str]) -> None:
    """Create a store's folder and write its facts; several writers may do so at once."""
    (folder / _PARTS).mkdir(parents=True, exist_ok=True)
    if read_facts(folder) != dict(facts):
        write(folder / _FACTS, _encoded(facts))


def read_facts(folder: Path) -> dict[str, str]:
    """Return the dependencies that a store records; empty if there are none to read."""
    return {str(k): str(v) for k, v in read_object(folder / _FACTS).items()}


def add_part(folder: Path, pairs: Mapping[bytes, tuple[float, float]]) -> None:
    """Write entries of a running pass to a new file."""
    data = pack(pairs)
    sealed = data + hashlib.sha256(data).digest()
    write(folder / _PARTS / f"{uuid.uuid4().hex}.bin", sealed)


def read_parts(folder: Path) -> Pairs:
    """Return the entries that earlier passes have written; torn files are skipped.

    Raises:
        LaunchError: as of ``add``.
    """
    pairs: Pairs = {}
    for path in lookup.matching(folder / _PARTS, "*.bin"):
        sealed = lookup.data(path)
        if sealed is None:  # another run has just completed the store
            continue
        data = sealed[:-_SUM]
        if hashlib.sha256(data).digest() == sealed[-_SUM:]:
            add(pairs, unpack(data).items(), folder)
    return pairs


def complete(folder: Path, pairs: Pairs, cost: Mapping[str, object]) -> None:
    """Write all entries, then the note that they are complete, and remove the parts.

    ``cost`` of the pass is for people, and for the throughput that includes the pass.
    """
    data = pack(pairs)
    digest = hashlib.sha256(data).hexdigest()
    write(_pairs(folder, digest), data)
    seal = {"pairs": len(pairs), "sha256": digest, "cost": dict(cost)}
    write(folder / _COMPLETE, _encoded(seal))
    for path in lookup.matching(folder / _PARTS, "*.bin"):
        path.unlink(missing_ok=True)


def read(folder: Path) -> tuple[Pairs, dict[str, Any]] | None:
    """Return all entries and their cost; None if the store is not complete.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    seal = read_object(folder / _COMPLETE)
    try:
        data = lookup.data(_pairs(folder, seal["sha256"]))
        if data is None or hashlib.sha256(data).hexdigest() != seal["sha256"]:
            return None
        return unpack(data), dict(seal["cost"])
    except (ValueError, KeyError, TypeError):
        return None


def refuse_torn(folder: Path) -> None:
    """End a run whose store, which ``read`` finds incomplete, was complete once.

    Raises:
        LaunchError: IO.
    """
    digest = str(known_object(folder / _COMPLETE, RESTORE).get("sha256") or "")
    if digest and lookup.exists(_pairs(folder, digest)) and read(folder) is None:
        raise torn(_pairs(folder, digest), RESTORE)


def write(path: Path, data: bytes) -> None:
    """Write a file atomically, even if several processes write it at the same time."""
    replace(path, data, writer=uuid.uuid4().hex)


def _pairs(folder: Path, digest: str) -> Path:
    return folder / f"pairs-{digest[:16]}.bin"


def _encoded(document: Mapping[str, object]) -> bytes:
    return (json.dumps(dict(document), indent=1, sort_keys=True) + "\n").encode()
