"""The process that writes one rank's files of a checkpoint: ``-m ... BUFFER CONNECTION PARENT``.

A thread of the training process would hold Python's lock while it serialises; a fork of a process
with CUDA and threads is not safe. So this one is started with torch alone, without a GPU, and reads
the tensors from the buffer that it shares with the training process. It ends with that process, at
once, so that two attempts never write the same file.
"""

from __future__ import annotations

import ctypes
import inspect
import io
import math
import mmap
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem

from launchers.storage.disk import GradualFlush
from launchers.system.atomic_file import flush
from launchers.training.saving.files import Failure, File, Flushed, Stored

_PR_SET_PDEATHSIG = 1
"""``prctl`` option of linux/prctl.h: the signal that this process gets when its parent ends."""
NICENESS = 10
"""The ranks and their data loaders come first."""


def write(file: File, buffer: mmap.mmap, flushed: Callable[[], None]) -> list[Any]:
    """Write and flush one file as torch does; return torch's ``WriteResult`` of each item.

    Raises:
        OSError: it could not be written.
    """
    named = inspect.signature(filesystem._write_item).parameters
    given = (
        {"serialization_format": filesystem.SerializationFormat.TORCH_SAVE}
        if "serialization_format" in named
        else {}
    )
    results = []
    with open(file.path, "wb") as stream:  # noqa: PTH123 - upstream's stream
        flush_parts = GradualFlush(stream, flushed)
        for item, data in (
            *((item, io.BytesIO(data)) for item, data in file.objects),
            *((each.item, _tensor(each, buffer)) for each in file.tensors),
        ):
            results.append(
                filesystem._write_item(*file.transforms, stream, data, item, file.key, **given)
            )
            flush_parts.advance()
        stream.flush()
        os.fsync(stream.fileno())
    flush(Path(file.path).parent)
    return results


def _tensor(stored: Stored, buffer: mmap.mmap) -> torch.Tensor:
    """Return a tensor whose storage is its part of the buffer: ``torch.save`` writes whole ones."""
    count = math.prod(stored.shape)
    if count == 0:
        return torch.empty(stored.shape, dtype=stored.dtype)
    flat = torch.frombuffer(buffer, dtype=stored.dtype, count=count, offset=stored.offset)
    return flat.view(stored.shape)


def serve(connection: Connection, buffer: mmap.mmap) -> None:
    """Write what the training process sends, until it closes the connection."""
    while True:
        try:
            files: Sequence[File] = connection.recv()
        except EOFError:
            return
        answer: list[Any] | Failure
        flushed = partial(connection.send, Flushed())
        try:
            answer = [result for file in files for result in write(file, buffer, flushed)]
        except Exception as error:
            answer = Failure.of(error)
        connection.send(answer)


def main(buffer: int, connection: int, parent: int) -> None:
    """Map the buffer and serve."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return  # it has ended before the signal was set
    os.nice(NICENESS)
    torch.set_num_threads(1)
    serve(Connection(connection), mmap.mmap(buffer, os.fstat(buffer).st_size))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
