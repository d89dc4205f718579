"""Threads that delay neither signals nor the exit of the process."""

import queue
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from launchers import logs

T = TypeVar("T")
R = TypeVar("R")


def each(
    act: Callable[[T], R], items: Iterable[T], workers: int = 8, seconds: float | None = None
) -> list[R]:
    """Apply ``act`` to all items, ``workers`` at a time; return the results in order.

    The first error is raised at once and no further item is started. Unlike an executor's, these
    threads delay neither the caller nor the exit: a pod has few seconds after SIGTERM, while a
    download takes minutes.

    Raises:
        TimeoutError: no item finished within ``seconds``, if given.
    """
    todo: queue.SimpleQueue[tuple[int, T]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()
    stop = threading.Event()
    listed = list(items)
    for numbered in enumerate(listed):
        todo.put(numbered)

    def work() -> None:
        while not stop.is_set():
            try:
                index, item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, act(item), None))
            except BaseException as error:
                done.put((index, None, error))

    for _ in range(min(workers, len(listed))):
        threading.Thread(target=work, name="each", daemon=True).start()
    found: dict[int, R] = {}
    try:
        for _ in listed:
            index, result, error = done.get(timeout=seconds)
            if error is not None:
                raise error
            found[index] = result  # type: ignore[assignment]
    except queue.Empty:
        raise TimeoutError from None
    finally:
        stop.set()
    return [found[index] for index in range(len(listed))]


def begin(act: Callable[[], R]) -> Callable[[], R]:
    """Run ``act`` in a thread; return what waits for it and returns its result or raises its error.

    >>> begin(lambda: 1)()
    1
    """
    found: Future[R] = Future()

    def work() -> None:
        try:
            found.set_result(act())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, name="begin", daemon=True).start()
    return found.result


def in_thread(act: Callable[[], R], seconds: float | None = None) -> R:
    """Run ``act`` in a thread, because it may block in C code, where signals are not handled.

    A DNS lookup blocks for up to 40 s if the name server does not answer.

    Raises:
        TimeoutError: it takes longer than ``seconds``, if given; the thread is abandoned.
    """
    return each(lambda one: one(), [act], seconds=seconds)[0]


def place_of(error: BaseException) -> str:
    """Return the innermost place of an error as ``file:line``; empty if it was not raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


@contextmanager
def repeat(act: Callable[[], None], every: float, name: str) -> Iterator[threading.Thread]:
    """Call ``act`` every so many seconds while the block runs; yields the thread.

    An exception of ``act`` is logged, if it is not the same as at the last call, and the calls
    continue: a watchdog must outlast its own errors. The end of the block waits at most a second
    for a call in progress: the disk may be slow.
    """
    ended = threading.Event()

    def work() -> None:
        last = ""
        while not ended.wait(every):
            try:
                act()
                last = ""
            except Exception as error:
                if repr(error) != last:
                    last = repr(error)
                    logs.warning("error in a thread", thread=name, cause=last, at=place_of(error))

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        ended.set()
        thread.join(timeout=1)
