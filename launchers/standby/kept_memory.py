"""Host memory for the copies of checkpoints, which the launcher keeps over restarts in place.

One file without a name (``memfd_create``) for each training process of the node. The process sets
its size and maps it (``training/saving/host_buffer.py``); the launcher only holds it open, so that
the process of the next attempt finds its pages. Without that a restart waits while the kernel frees
them and then clears new ones: 3.6 s and 3.5 s for 15 GB (tests/gpu/NOTES.md, "Host memory over
restarts").
"""

from __future__ import annotations

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
        """Make the files, which are empty.

        Args:
            processes: training processes of this node; 0 keeps nothing.
        """
        count = processes if sys.platform == "linux" else 0
        self._descriptors = [os.memfd_create(NAME) for _ in range(count)]

    @property
    def env(self) -> Mapping[str, str]:
        """Return the variable by which the training processes find the files."""
        paths = [f"/proc/{os.getpid()}/fd/{each}" for each in self._descriptors]
        return {VARIABLE: ":".join(paths)} if paths else {}

    def close(self) -> None:
        """Release the memory; processes that have mapped it keep it until they end."""
        for each in self._descriptors:
            os.close(each)
        self._descriptors = []


def kept_bytes(env: Mapping[str, str]) -> int:
    """Return the bytes of memory in the files of this node, which the attempt before has left."""
    total = 0
    for path in filter(None, env.get(VARIABLE, "").split(":")):
        with contextlib.suppress(OSError):
            total += Path(path).stat().st_blocks * _BLOCK
    return total


def open_own(env: Mapping[str, str]) -> int:
    """Return a descriptor of this training process's file; its own without a launcher's.

    Args:
        env: its environment; ``LOCAL_RANK`` is torchrun's.
    """
    paths, local = env.get(VARIABLE, "").split(":"), int(env.get("LOCAL_RANK", "0"))
    with contextlib.suppress(OSError):  # proc(5) may deny it: the memory is then not kept
        if local < len(paths) and paths[local]:
            return os.open(paths[local], os.O_RDWR | os.O_CLOEXEC)
    return os.memfd_create(NAME)
