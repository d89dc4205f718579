"""One start or end of the cluster at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout


@contextmanager
def held(layout: Layout) -> Iterator[None]:
    """Hold the checkout's lock; the kernel frees it if this command dies.

    Raises:
        Problem: another command holds it.
    """
    layout.home.mkdir(parents=True, exist_ok=True)
    with (layout.home / "lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = "another command starts or ends this checkout's cluster"
            raise Problem(f"{text}; wait for it, then try again") from None
        yield
