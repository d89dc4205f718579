import time

import pytest

from launchers.system.retry import RetryPolicy, retry

QUICK = RetryPolicy(limit=0.5, first=0.01, longest=0.05)


def failing(times: int, error: Exception) -> tuple[list[int], object]:
    calls: list[int] = []

    def act() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return "done"

    return calls, act


def test_a_transient_error_is_tried_again_until_it_passes() -> None:
    calls, act = failing(3, ConnectionError("reset"))
    assert retry("x", act, lambda e: True, QUICK) == "done"  # type: ignore[arg-type]
    assert len(calls) == 4


def test_a_lasting_error_is_raised_at_once() -> None:
    calls, act = failing(9, PermissionError("401"))
    with pytest.raises(PermissionError):
        retry("x", act, lambda e: isinstance(e, ConnectionError), QUICK)  # type: ignore[arg-type]
    assert len(calls) == 1


def test_the_time_limit_ends_retries() -> None:
    calls, act = failing(10**9, ConnectionError("reset"))
    started = time.monotonic()
    with pytest.raises(ConnectionError):
        retry("x", act, lambda e: True, QUICK)  # type: ignore[arg-type]
    assert time.monotonic() - started < 0.7
    assert len(calls) > 3


def test_pauses_grow_to_a_bound_and_differ_between_pods() -> None:
    policy = RetryPolicy(first=1, longest=60)
    assert [policy.delay(n, 0.999999) for n in (1, 2, 7, 1000)] == pytest.approx([1, 2, 60, 60])
    assert policy.delay(3, 0.0) < policy.delay(3, 0.9)
