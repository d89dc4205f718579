"""Host memory for the copy of a checkpoint, shared with the process that writes it.

The memory is a file without a name (``memfd_create``): ``/dev/shm`` of a pod may have 64 MB. It is
allocated once and kept, by the launcher over restarts in place (``standby/kept_memory.py``): the
kernel clears new pages at a few GB/s, and pinning them takes as long. It counts as the pod's
memory.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Sequence

import torch

from launchers import logs
from launchers.standby import kept_memory

ALIGNMENT = 256
"""Alignment of each tensor, in bytes."""


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the place of each tensor in the buffer, and the bytes of all.

    ``sizes``: bytes of each tensor.

    >>> offsets([10, 256, 1])
    ([0, 256, 512], 768)
    """
    places, total = [], 0
    for size in sizes:
        places.append(total)
        total += -(-size // ALIGNMENT) * ALIGNMENT
    return places, total


class HostBuffer:
    """Memory of a fixed size; on a GPU host it is pinned, so that copies run at PCIe's speed."""

    def __init__(self, size: int) -> None:
        """Reserve the address range; ``prepare`` or the first copy allocates the memory.

        ``size``: bytes.

        Raises:
            OSError: the kernel has no such memory to give.
        """
        self.size = max(size, ALIGNMENT)
        self.descriptor = kept_memory.open_own(os.environ)
        os.ftruncate(self.descriptor, self.size)
        self._bytes = torch.frombuffer(mmap.mmap(self.descriptor, self.size), dtype=torch.uint8)
        self._preparation: threading.Thread | None = None

    def prepare(self, *, pins: bool) -> None:
        """Allocate and pin the memory in a thread, both without Python's lock."""
        self._preparation = threading.Thread(
            target=self._prepare, args=(pins,), name="checkpoint memory", daemon=True
        )
        self._preparation.start()

    def _prepare(self, pins: bool) -> None:
        os.posix_fallocate(self.descriptor, 0, self.size)
        if not pins:
            return
        code = torch.cuda.cudart().cudaHostRegister(self._bytes.data_ptr(), self.size, 0)
        if int(code) != 0:  # copies work, only slower
            logs.warning("host memory of checkpoints is not pinned", code=int(code))

    def copy(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """Copy tensors into the buffer and return their offsets, in bytes.

        The copies are complete when this returns: the caller may change the tensors.

        ``tensors``: of any device and dtype; each is stored contiguously.
        """
        if self._preparation is not None:
            self._preparation.join()
            self._preparation = None
        places, total = offsets([t.nbytes for t in tensors])
        assert total <= self.size, (total, self.size)
        with torch.no_grad():
            for tensor, place in zip(tensors, places, strict=True):
                target = self._bytes[place : place + tensor.nbytes].view(tensor.dtype)
                target.view(tensor.shape).copy_(tensor, non_blocking=True)
        if any(tensor.is_cuda for tensor in tensors):
            torch.cuda.current_stream().synchronize()
        return places

    def close(self) -> None:
        """Release the memory once nothing else refers to it."""
        os.close(self.descriptor)
