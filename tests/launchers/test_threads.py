from __future__ import annotations

import threading
import time

import pytest

from launchers.threads import each


def test_results_keep_their_order_however_long_each_takes() -> None:
    def act(number: int) -> int:
        time.sleep(0.01 * (5 - number))
        return number

    assert each(act, range(5), workers=5) == [0, 1, 2, 3, 4]


def test_the_first_error_is_raised_at_once_and_nothing_new_is_begun() -> None:
    begun: list[int] = []
    release = threading.Event()

    def act(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("first")
        release.wait(5)

    started = time.monotonic()
    with pytest.raises(ValueError, match="first"):
        each(act, range(100), workers=2)
    assert time.monotonic() - started < 1
    release.set()
    time.sleep(0.05)
    assert len(begun) <= 3


def test_nothing_to_do_is_done() -> None:
    assert each(str, [], workers=4) == []
