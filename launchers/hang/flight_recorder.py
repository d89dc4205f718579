"""NCCL's flight recorder in torch: which collectives each process has enqueued and completed.

Names as in torch 2.11 (``FlightRecorder.hpp`` and ``DumpPipe`` of ``ProcessGroupNCCL.hpp`` in
``torch/csrc/distributed/c10d``); each process warns of the older ones, ``TORCH_NCCL_TRACE_…``. A
byte into a process's pipe makes it write its dump, a pickle of dictionaries; its monitoring thread
looks once a second.
"""

import ast
import hashlib
import io
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRIES = "20000"
"""Collectives that are kept: more than a step of 48 layers has; torch's default is 2,000."""


NAMED = 256
"""Characters of the ranks of a group; rank 0 gets them from each process of the gang."""


def compact(ranks: Sequence[int]) -> str:
    """Return ranks as ranges with their steps, at most ``NAMED`` characters; equal for equal ranks.

    A longer text ends with a digest of all ranks in place of its rest.

    >>> compact(range(8192)), compact([0, 8, 16, 24, 3]), compact([5, 7])
    ('0-8191', '0-24/8,3', '5,7')
    >>> len(compact([n * n for n in range(8192)])) <= NAMED
    True
    """
    parts, first = [], 0
    while first < len(ranks):
        last, step = first, 0
        while last + 1 < len(ranks) and (step in (0, ranks[last + 1] - ranks[last])):
            step = ranks[last + 1] - ranks[last]
            last += 1
        if last - first < 2:
            last, step = first, 1
        end = f"-{ranks[last]}" if last > first else ""
        parts.append(f"{ranks[first]}{end}" + (f"/{step}" if step != 1 else ""))
        first = last + 1
    text = ",".join(parts)
    if len(text) <= NAMED:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text[: NAMED - 60]}... ({len(ranks)} ranks, {digest})"


@dataclass(frozen=True, kw_only=True)
class Group:
    """The collectives of one process group, as one of its processes sees them."""

    name: str
    """Equal on all its processes."""
    ranks: str | Sequence[int]
    """Kept as what ``compact`` makes of them: of thousands, each on thousands of processes."""
    enqueued: int
    """Number of its last collective that was enqueued."""
    completed: int

    def __post_init__(self) -> None:
        """Compact the ranks."""
        if not isinstance(self.ranks, str):
            object.__setattr__(self, "ranks", compact(self.ranks))


def environment(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables by which training processes keep and dump their collectives.

    Args:
        env: the launcher's; what the user sets counts.
        folder: on the node's own disk: torch ends a process that cannot make its pipe.
    """
    own = {
        "TORCH_FR_BUFFER_SIZE": ENTRIES,
        "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/rank_",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{folder}/pipe_",
    }
    return {name: value for name, value in own.items() if name not in env}


def dump_of(folder: Path, rank: int) -> Path:
    """Return the file into which a process dumps, by its global rank."""
    return folder / f"rank_{rank}"


def ask(folder: Path, rank: int) -> bool:
    """Ask a process for its dump; return whether it has a pipe and reads it."""
    try:
        pipe = os.open(folder / f"pipe_{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no pipe: not NCCL; or no reader: the process has ended
        return False
    try:
        os.write(pipe, b"1")
    except OSError:
        return False
    finally:
        os.close(pipe)
    return True


class _Plain(pickle.Unpickler):
    """Reads a pickle of built-in types only."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse any class."""
        raise pickle.UnpicklingError(f"{module}.{name} in a flight recorder's dump")


def parse(data: bytes) -> tuple[Group, ...]:
    """Return the process groups of a dump; empty if it is torn or of an unknown form.

    The status of a group has the process's own number of the group; the entries, one for each
    collective, map it to the group's name, and ``pg_config`` maps the name to its ranks.

    >>> dump = {"pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    ...         "pg_status": {"4": {"last_enqueued_collective": 7, "last_completed_collective": 6}},
    ...         "entries": [{"pg_id": 4, "process_group": ("0", "default_pg")}]}
    >>> parse(pickle.dumps(dump))
    (Group(name='0', ranks='0,1', enqueued=7, completed=6),)
    >>> parse(b"x")
    ()
    """
    try:
        dump = _Plain(io.BytesIO(data)).load()
        names = {str(each["pg_id"]): str(each["process_group"][0]) for each in dump["entries"]}
        return tuple(
            Group(
                name=name,
                ranks=tuple(ast.literal_eval(str(dump["pg_config"][name]["ranks"]))),
                enqueued=int(dump["pg_status"][number]["last_enqueued_collective"]),
                completed=int(dump["pg_status"][number]["last_completed_collective"]),
            )
            for number, name in sorted(names.items())
            if number in dump["pg_status"] and name in dump["pg_config"]
        )
    except Exception:  # a torn pickle raises any error; the dump is only a part of the evidence
        return ()
