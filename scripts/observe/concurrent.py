"""Concurrent calls that do not delay the end of the command.

A `ThreadPoolExecutor` waits for its threads, also after Ctrl-C: for as long as the time limit of a
request to a server that has stalled.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
CALLS = 12
"""Calls that run at the same time."""
_running = threading.BoundedSemaphore(CALLS)


def start(call: Callable[..., Result], *words: Any, **named: Any) -> Future[Result]:
    """Start a call in a daemon thread, as soon as fewer than `CALLS` run.

    A call must not start others.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call(*words, **named))
        except BaseException as error:
            future.set_exception(error)
        finally:
            _running.release()

    _running.acquire()
    threading.Thread(target=run, daemon=True).start()
    return future


def call_each(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results of a call for each item, in the order of the items.

    >>> call_each(abs, [-3, 2])
    [3, 2]
    """
    return [future.result() for future in [start(call, item) for item in items]]
