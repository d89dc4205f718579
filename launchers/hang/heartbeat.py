"""One training process: it gives heartbeats, and dumps its stacks on the launcher's signal.

A heartbeat is a write to mapped memory with the time (``system/step_board.py``). Boundaries give
one (``stop``); the phases between them that take long are marked here.
"""

import ctypes
import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any

from launchers.config.workspace import Workspace
from launchers.hang import stacks
from launchers.system.step_board import Phase, StepBoard
from launchers.training.saving import foreground

_PR_SET_PTRACER = 0x59616D61
"""``prctl`` option of linux/prctl.h (Yama): lets py-spy read the stacks, no ancestor of it."""


class Heartbeat:
    """The heartbeat of one process; without a launcher it does nothing."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Open the launcher's board; ``LOCAL_RANK`` is torchrun's."""
        self._board = StepBoard.of_process(env)
        self._local = int(env.get("LOCAL_RANK", "0"))
        self._folder = env.get(stacks.FOLDER, "")
        self._run = env.get("DPO_RUN_FOLDER", "")

    def begin(self) -> None:
        """Install the handler that dumps the stacks, then name this process to the launcher.

        From now on the progress of a save that stops training gives heartbeats, too.
        """
        if self._board is None or not self._folder:
            return
        path = stacks.path_of(Path(self._folder), self._local)
        self._file = path.open("w", encoding="utf-8")  # the handler writes to it
        self._file.write(stacks.header(threading.main_thread().ident or 0))
        self._file.flush()
        faulthandler.register(stacks.SIGNAL, file=self._file, all_threads=True)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
        self._board.write(self._local, pid=os.getpid())
        if self._run:
            foreground.watch(self._board, self._local, Workspace.of(Path(self._run)).checkpoints)

    def note_trained(self) -> None:
        """Note that the trainer of this process has ended its training."""
        if self._board is not None:
            self._board.write(self._local, is_trained=True)

    @contextmanager
    def phase(self, inner: Phase, after: Phase) -> Iterator[None]:
        """Mark a phase; ``after`` is the one that follows."""
        if self._board is not None:
            self._board.write(self._local, phase=inner)
        yield
        if self._board is not None:
            self._board.write(self._local, phase=after)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Mark the time in which this process writes its part of a checkpoint, in any thread."""
        if self._board is None:
            yield
            return
        self._board.mark_write(self._local, is_open=True)
        try:
            yield
        finally:
            self._board.mark_write(self._local, is_open=False)

    def note_flush(self) -> None:
        """Note that more of what this process writes is on the disk; within ``writing``."""
        if self._board is not None:
            self._board.mark_write(self._local, is_open=True)

    def loading(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function that returns the next batch: data are awaited during its call."""
        board, local = self._board, self._local
        if board is None:
            return call

        @wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            board.write(local, loads=True)
            try:
                return call(*args, **kwargs)
            finally:
                board.write(local, loads=False)

        return wrapped


@cache
def current() -> Heartbeat:
    """Return the heartbeat of this process."""
    return Heartbeat(os.environ)


def install() -> None:
    """Begin, and mark the time in which torch's data loader is awaited, by either trainer."""
    current().begin()
    _mark_loading()


def _mark_loading() -> None:
    """Wrap the base class of torch's iterators over a data loader.

    It is private, and the same since torch 1.2; without it a process that waits for data counts as
    in its step. What it returns does not change.
    """
    from torch.utils.data import dataloader

    iterator = getattr(dataloader, "_BaseDataLoaderIter", None)
    if iterator is not None:
        iterator.__next__ = current().loading(iterator.__next__)
