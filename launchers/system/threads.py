"""Several things at a time, without making a signal wait for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each(
    act: Callable[[T], R], items: Iterable[T], workers: int = 8, seconds: float | None = None
) -> list[R]:
    """Apply ``act`` to all items, ``workers`` at a time; return the results in order.

    The first error is raised at once and no further item is begun. Unlike an executor's, these
    threads hold up neither the caller nor the end of the process: a pod has few seconds after
    SIGTERM, and a file on its way from a hub takes minutes.

    Raises:
        TimeoutError: no item was done for so many ``seconds``, if they are given.

    >>> each(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
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


def aside(act: Callable[[], R], seconds: float | None = None) -> R:
    """Do one thing in a thread of its own, because it may block in C: no signal is heard there.

    Looking up a name does, for up to 40 s where the name server is silent.

    Raises:
        TimeoutError: it takes longer than ``seconds``, if they are given; nobody waits for it then.

    >>> aside(lambda: 1)
    1
    """
    return each(lambda one: one(), [act], seconds=seconds)[0]


@contextmanager
def regularly(act: Callable[[], None], every: float, name: str) -> Iterator[threading.Thread]:
    """Do something every so many seconds beside the block, in a thread that is handed over.

    The block's end waits a second for what is under way: it may hang in a slow disk.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(every):
            act()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        ended.set()
        thread.join(timeout=1)
