"""One rank's saves: the copy on the training thread, the rest in the background.

A save in the background has three parts. ``copy`` holds the training: it copies what this rank
writes to host memory. ``start`` hands it to the process that writes it, and to a thread that waits
for that process. The thread of each rank then publishes where its tensors lie; that of rank 0 waits
for all ranks, writes the index (``.metadata``) and calls what completes the checkpoint. The ranks
meet in the store of the process group, without a collective, which would need the training thread.

Errors are kept for the training thread, which raises them at its next step, save or end. A rank
that dies leaves a checkpoint without its seal, which no resume uses.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, Protocol

from launchers.exits import Exit, LaunchError
from launchers.hang import heartbeat
from launchers.plan.memory import BUFFER_SPARE
from launchers.storage import run_lease
from launchers.storage.node_disk import Written
from launchers.training.saving.files import Failure, File, Flushed, Stored
from launchers.training.saving.host_buffer import HostBuffer, offsets
from launchers.training.saving.staging import Staging

WRITE_PROCESS = f"{__package__}.write_process"
"""The module that the other process runs; not imported here."""
POLL_SECONDS = 0.1
"""Seconds between two checks of rank 0 whether the others have written."""
CHUNK = 4 * 1024**2
"""Bytes of one value in the store: torch's takes at most 8 MiB (``TCPStoreLibUvBackend.cpp``)."""
KEPT_FREE = 0.9
"""Share of the free memory that copies may take: data loaders and caches use the rest."""


class Store(Protocol):
    """The part of ``torch.distributed.Store`` that is used."""

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""

    def get(self, key: str) -> bytes:
        """Return the value of a key that is set."""

    def check(self, keys: list[str]) -> bool:
        """Return whether all keys are set."""

    def delete_key(self, key: str) -> bool:
        """Remove a key."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One rank's part of one save, copied to host memory."""

    files: Sequence[File]
    index: Callable[[list[list[Any]]], None]
    """Writes the checkpoint's index from the results of all ranks; called on rank 0."""
    size: int
    """Bytes of this rank's tensors."""


def publish(store: Store, key: str, results: Sequence[Any]) -> None:
    """Put a rank's results under a key; the key itself is set last."""
    data = zlib.compress(pickle.dumps(list(results)), level=1)
    parts = [data[first : first + CHUNK] for first in range(0, len(data), CHUNK)]
    for number, part in enumerate(parts):
        store.set(f"{key}/{number}", part)
    store.set(key, str(len(parts)))


def collect(store: Store, key: str) -> list[Any]:
    """Wait for what ``publish`` has put under a key, return it, and remove it."""
    while not store.check([key]):
        time.sleep(POLL_SECONDS)
    names = [f"{key}/{number}" for number in range(int(store.get(key)))]
    found: list[Any] = pickle.loads(zlib.decompress(b"".join(map(store.get, names))))
    for name in (*names, key):
        store.delete_key(name)
    return found


class WriteProcess:
    """The process that writes this rank's files; it is started once."""

    def __init__(self, buffer: HostBuffer) -> None:
        """Start it, from the main thread: it ends when the thread that started it does."""
        self._connection, theirs = Pipe()
        shared = (buffer.descriptor, theirs.fileno())
        self._process = subprocess.Popen(
            [sys.executable, "-m", WRITE_PROCESS, *map(str, (*shared, os.getpid()))],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=shared,
        )
        theirs.close()

    def write(self, files: Sequence[File]) -> list[Any]:
        """Write files; return torch's results.

        Raises:
            OSError: a file could not be written, with upstream's ``errno`` if there is one.
            LaunchError: another launcher leads the run, see ``run_lease.check``.
        """
        run_lease.check()
        connection: Connection = self._connection
        try:
            connection.send(files)
            while isinstance(answer := connection.recv(), Flushed):
                heartbeat.current().note_flush()
        except (EOFError, ConnectionError):
            code = self._process.wait()
            raise OSError(f"the process that writes checkpoints has ended with {code}") from None
        if isinstance(answer, Failure):
            raise answer.error()
        found: list[Any] = answer
        return found

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.wait()


class Writes:
    """The saves of one rank, one after the other."""

    def __init__(self, rank: int, ranks: int, store: Store, staging: Staging | None = None) -> None:
        """Prepare; no memory is allocated yet.

        ``staging``: the node's disk, on all ranks or none; without it all goes to the workspace.
        """
        self._rank, self._ranks, self._store = rank, ranks, store
        self.staging = staging
        self._buffer: HostBuffer | None = None
        self._process: WriteProcess | None = None
        self._planned: Planned | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._number = 0
        self._step = 0
        self.seconds = 0.0
        """Duration of the last write, from its start to the seal; 0 before the first."""

    def reserve(self, size: int, *, pins: bool) -> None:
        """Allocate memory for the first save, and start the process that writes it.

        ``size`` is an estimate in bytes; ``pins``: this process copies from a GPU.
        """
        if self._process is not None:
            self._process.close()
        if self._buffer is not None:
            self._buffer.close()
        self._buffer = HostBuffer(int(size * BUFFER_SPARE))
        self._buffer.prepare(pins=pins)
        self._process = WriteProcess(self._buffer)

    def copy(
        self,
        files: Sequence[tuple[str, str, Sequence[tuple[Any, Any]], Sequence[tuple[Any, Any]]]],
        transforms: Sequence[Any],
        index: Callable[[list[list[Any]]], None],
    ) -> None:
        """Copy this rank's part of a save; the previous save must have been completed.

        ``files``: path, key, objects and tensors, each with its ``WriteItem``.

        Raises:
            LaunchError: IO, the previous save failed.
        """
        self.wait()
        tensors = [tensor for _, _, _, found in files for _, tensor in found]
        size = offsets([t.nbytes for t in tensors])[1]
        if self._buffer is None or self._buffer.size < size:
            self.reserve(size, pins=any(t.is_cuda for t in tensors))
        assert self._buffer is not None
        if self.staging is not None:
            self.staging.reserve(size)
        places = iter(self._buffer.copy(tensors))
        self._planned = Planned(
            files=[
                File(
                    path=path,
                    key=key,
                    objects=[(item, bytes(data.getbuffer())) for item, data in objects],
                    tensors=[
                        Stored(item=item, offset=next(places), dtype=t.dtype, shape=tuple(t.shape))
                        for item, t in found
                    ],
                    transforms=transforms,
                )
                for path, key, objects, found in files
            ],
            index=index,
            size=size,
        )

    @property
    def has_copied(self) -> bool:
        """Return whether a copy waits for ``start``."""
        return self._planned is not None

    @property
    def copied(self) -> int:
        """Return the bytes of the copy that waits for ``start``."""
        return 0 if self._planned is None else self._planned.size

    def start(
        self,
        step: int,
        written: Callable[[], None],
        complete: Callable[[float], None],
        announce: Callable[[list[Written]], None] = lambda _: None,
    ) -> None:
        """Write what was copied, in the background.

        Args:
            step: completed optimizer steps, for messages.
            written: called on each rank once its files are written and flushed; not with a node's
                disk, which digests them itself.
            complete: called on rank 0 with the seconds of the write, once all ranks have written
                and flushed their files to the workspace and the index is written.
            announce: called on rank 0 with what each rank has written, once all have and the index
                is written, if there is a node's disk.
        """
        planned, self._planned = self._planned, None
        assert planned is not None and self._thread is None
        self._number, self._step = self._number + 1, step
        self._thread = threading.Thread(
            target=self._run,
            args=(planned, written, complete, announce),
            name="checkpoint",
            daemon=True,
        )
        self._thread.start()

    def _run(
        self,
        planned: Planned,
        written: Callable[[], None],
        complete: Callable[[float], None],
        announce: Callable[[list[Written]], None],
    ) -> None:
        begin, staging = time.monotonic(), self.staging
        writing = heartbeat.current().writing
        own: Written = {}
        try:
            assert self._process is not None
            write = self._process.write
            with writing():
                if staging is None:
                    results = write(planned.files)
                    written()
                else:
                    results, own = staging.write(planned.files, write)
            everyone = self._gather("written", [results, own])
            with writing():
                if everyone:
                    planned.index([each[0] for each in everyone])
                if staging is not None:
                    if everyone:
                        announce([each[1] for each in everyone])
                    staging.copy(planned.files, write)
            if staging is not None:
                everyone = self._gather("copied", [])
            with writing():
                if everyone:
                    complete(time.monotonic() - begin)
        except BaseException as error:
            self._error = error
        self.seconds = time.monotonic() - begin

    def _gather(self, what: str, own: list[Any]) -> list[list[Any]]:
        """Return what all ranks have to say, by rank; on other ranks than 0 nothing, at once."""
        key = f"dpo/checkpoint/{self._number}/{what}"
        if self._rank:
            publish(self._store, f"{key}/{self._rank}", own)
            return []
        return [own, *(collect(self._store, f"{key}/{rank}") for rank in range(1, self._ranks))]

    @property
    def expected_seconds(self) -> float:
        """Return what a save begun now takes to be written, after the one in progress."""
        is_writing = self._thread is not None and self._thread.is_alive()
        return self.seconds * (2 if is_writing else 1)

    def check(self) -> None:
        """Raise the error of a write that has failed.

        Raises:
            LaunchError: IO.
        """
        if self._error is None:
            return
        raise LaunchError(
            Exit.IO,
            f"the checkpoint of step {self._step} was not written: {self._error}",
            "look at the workspace's storage and its free space; the next attempt resumes from the "
            "newest checkpoint that is complete",
            id="checkpoint-write",
        ) from self._error

    def wait(self) -> None:
        """Wait until the write in progress has ended.

        Raises:
            LaunchError: IO, it failed.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()


_current: Writes | None = None


def enable(writes: Writes | None) -> None:
    """Let the saves of this process be written by ``writes``; by upstream if None."""
    global _current
    _current = writes


def current() -> Writes | None:
    """Return the saves of this process; None where upstream writes them."""
    return _current


def finish() -> None:
    """Wait until the save in progress, if any, is complete on this rank.

    On rank 0 that is the seal. The other ranks have then written their part; a barrier after this
    makes them wait for the seal.

    Raises:
        LaunchError: IO, it failed.
    """
    if _current is not None:
        _current.wait()


def fits(needed: int, available: int, processes: int, kept: int = 0) -> bool:
    """Return whether the copies of all processes of a node fit into its free memory.

    ``needed`` is of one process; ``kept`` bytes, of the attempt before, are not free.

    >>> fits(10, 100, 8), fits(10, 80, 8), fits(10, 20, 8, kept=80)
    (True, False, True)
    """
    return needed * processes - kept <= KEPT_FREE * available
