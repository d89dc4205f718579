"""Host memory for the copies of checkpoints, which the launcher keeps over restarts in place.

One file without a name (``memfd_create``) for each training process of the node. The process sets
its size and maps it (``training/saving/host_buffer.py``); the launcher only holds it open, so that
the process of the next attempt finds its pages. Without that a restart waits while the kernel frees
them, and later while it clears new ones: 2 and 2.7 s more for 15 GB of one process
(tests/bench/notes/memory.md).
"""

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "DPO_KEPT_MEMORY"
"""Environment variable of the training processes: the files' paths in the order of the local ranks;
set by the launcher."""
NAME = "dpo-checkpoint"
_BLOCK = 512
"""Bytes of a block in stat(2)."""


class KeptMemory:
    """The files of one launcher."""

    def __init__(self, processes: int) -> None:
        """Make the files, which are empty; none where the kernel gives no such memory.

        ``processes``: training processes of this node; 0 keeps nothing.
        """
        self._descriptors: list[int] = []
        count = processes if sys.platform == "linux" else 0
        with contextlib.suppress(OSError):  # seccomp, vm.memfd_noexec, a limit of open files
            for _ in range(count):
                self._descriptors.append(os.memfd_create(NAME))

    @property
    def env(self) -> Mapping[str, str]:
        """Return the variable by which the training processes find the files."""
        paths = [f"/proc/{os.getpid()}/fd/{each}" for each in self._descriptors]
        return {VARIABLE: ":".join(paths)} if paths else {}

    def make_room(self, available: int) -> None:
        """Release the memory unless as much again is free: a resume reads as many bytes.

        ``available``: bytes that may still be allocated.
        """
        if available < kept_bytes(self.env):
            for each in self._descriptors:
                os.ftruncate(each, 0)

    def close(self) -> None:
        """Release the memory; processes that have mapped it keep it until they end."""
        for each in self._descriptors:
            os.close(each)
        self._descriptors = []


def kept_bytes(env: Mapping[str, str]) -> int:
    """Return the bytes of memory in the files of this node, which the attempt before has left."""
    total = 0
    for path in _paths(env):
        with contextlib.suppress(OSError):
            total += path.stat().st_blocks * _BLOCK
    return total


def open_own(env: Mapping[str, str]) -> int:
    """Return a descriptor of this training process's file; a new one without a launcher's.

    ``env``: its environment; ``LOCAL_RANK`` is torchrun's.
    """
    with contextlib.suppress(OSError, IndexError):  # proc(5) may deny it: nothing is kept then
        return os.open(_paths(env)[_local(env)], os.O_RDWR | os.O_CLOEXEC)
    return os.memfd_create(NAME)


def clear_own(env: Mapping[str, str]) -> None:
    """Release what the attempt before has left for this training process."""
    with contextlib.suppress(OSError, IndexError):
        os.truncate(_paths(env)[_local(env)], 0)


def _paths(env: Mapping[str, str]) -> list[Path]:
    return [Path(path) for path in env.get(VARIABLE, "").split(":") if path]


def _local(env: Mapping[str, str]) -> int:
    return int(env.get("LOCAL_RANK", "0"))
