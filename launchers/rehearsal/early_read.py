"""Read weights once they are written, while the run's last save and its processes end.

The export is made after that, of links to the same files: what was read of them counts if they have
not changed. ``python3 -m launchers.rehearsal.early_read NOTE FOLDER...`` runs next to the training
processes and adds two lines to NOTE for each file of weights, each once that is known::

    {"file": [device, inode, bytes, mtime in ns], "sha256": hex}
    {"file": [device, inode, bytes, mtime in ns], "not_finite": [tensors that hold NaN or Inf]}

What it has not noted, the export reads.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from launchers.storage import manifest
from launchers.storage.manifest import Entry, Identity, identity
from launchers.storage.seal_check import header
from launchers.system import lookup
from launchers.system.threads import each
from launchers.units import GIB

NAME = "early-read.jsonl"
"""The note, in the run's folder."""
WEIGHTS = "*.safetensors"
LEAST_BYTES = GIB
"""Less is read by the export as fast as a process starts."""
END_SECONDS = 30.0
"""Time in which the process that has started it waits for its end: then the launcher ends both."""
NICENESS = 10
"""The checkpoint is written and digested at the same time."""
NOT_FINITE = {
    "F64": (8, 0x7FF0 << 48, 0xFFF0 << 48),
    "F32": (4, 0x7F80 << 16, 0xFF80 << 16),
    "F16": (2, 0x7C00, 0xFC00),
    "BF16": (2, 0x7F80, 0xFF80),
    "F8_E5M2": (1, 0x7C, 0xFC),
    "F8_E4M3": (1, 0x7F, 0xFF),
    "F8_E8M0": (1, 0x80, 0xFF),
}
"""Bytes of a number of a format; the least that is NaN or Inf as a signed integer of its bits, and
as an unsigned one, which is negative. The last format has no sign."""
PART_BYTES = 1 << 20
"""It is judged in a core's cache."""


class Noted(NamedTuple):
    """What was read."""

    digests: Mapping[Identity, Entry]
    not_finite: Mapping[Identity, list[str]]


NOTHING = Noted({}, {})


def noted(home: Path) -> Noted:
    """Return what was read early of a run's files; lines that are torn are left out."""
    digests, names = dict[Identity, Entry](), dict[Identity, list[str]]()
    for line in (lookup.text(home / NAME) or "").splitlines():
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            file = Identity(*map(int, found["file"]))
            if "sha256" in found:
                digests[file] = Entry(file.size, str(found["sha256"]))
            else:
                names[file] = list(map(str, found["not_finite"]))
    return Noted(digests, names)


def begin(home: Path, folders: Sequence[Path]) -> None:
    """Read the weights in these folders in a process of its own, from the main thread.

    This process waits for it at its own end, ``END_SECONDS`` at most, unless it has failed.
    """
    paths = [path for folder in folders for path in lookup.matching(folder, WEIGHTS)]
    if sum(path.stat().st_size for path in paths) < LEAST_BYTES:
        return
    words = [str(home / NAME), *map(str, folders)]
    process = subprocess.Popen(
        [sys.executable, "-m", "launchers.rehearsal.early_read", *words],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        stdin=subprocess.DEVNULL,
    )

    def wait() -> None:
        if not hasattr(sys, "last_value"):  # set by Python for an uncaught exception
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)

    atexit.register(wait)


def not_finite(path: Path) -> list[str]:
    """Read all tensors of a file; return the names of those that hold NaN or Inf.

    By their bits: torch has no faster way for bf16, and takes seconds to import.

    Raises:
        ValueError: the file ends before its last tensor.
    """
    import numpy as np

    head, found = header(path, path.stat().st_size), []
    start = head.start
    with path.open("rb") as file:
        for name, tensor in head.tensors.items():
            if tensor["dtype"] not in NOT_FINITE:
                continue
            width, *limits = NOT_FINITE[tensor["dtype"]]
            begin, end = tensor["data_offsets"]
            file.seek(start + begin)
            for at in range(begin, end, PART_BYTES):
                data = file.read(min(PART_BYTES, end - at))
                numbers = (np.frombuffer(data, f"<{sign}{width}") for sign in "iu")
                if any(int(n.max()) >= limit for n, limit in zip(numbers, limits, strict=True)):
                    found.append(name)
                    break
    return found


def _sha256(path: Path) -> str:
    return manifest.entry(path).sha256


def main(argv: Sequence[str]) -> int:
    """Read, file by file: what is noted counts if the process is ended; return the exit code."""
    os.nice(NICENESS)
    acts: dict[str, Callable[[Path], object]] = {"sha256": _sha256, "not_finite": not_finite}
    paths = sorted(path for folder in argv[1:] for path in lookup.matching(Path(folder), WEIGHTS))
    note = os.open(argv[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def read(what: tuple[str, Path]) -> None:
        key, path = what
        before = identity(path)
        found = acts[key](path)
        if identity(path) == before:
            os.write(note, json.dumps({"file": before, key: found}).encode() + b"\n")

    each(read, ((key, path) for path in paths for key in acts), manifest.READERS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
