import time
from unittest.mock import Mock

import pytest

from launchers.system.retry import RetryPolicy, retry

QUICK = RetryPolicy(limit=0.5, first=0.01, longest=0.05)


def failing(times: int, error: Exception) -> Mock:
    """Return a function that fails so many times before it succeeds."""
    return Mock(side_effect=[*[error] * times, "done"])


def test_a_transient_error_is_tried_again_until_it_passes() -> None:
    act = failing(3, ConnectionError("reset"))
    assert retry("x", act, lambda e: True, QUICK) == "done"
    assert act.call_count == 4


def test_a_lasting_error_is_raised_at_once() -> None:
    act = failing(9, PermissionError("401"))
    with pytest.raises(PermissionError):
        retry("x", act, lambda e: isinstance(e, ConnectionError), QUICK)
    assert act.call_count == 1


def test_the_time_limit_ends_retries() -> None:
    act = failing(1000, ConnectionError("reset"))
    started = time.monotonic()
    with pytest.raises(ConnectionError):
        retry("x", act, lambda e: True, QUICK)
    assert time.monotonic() - started < 0.7
    assert act.call_count > 3


def test_pauses_grow_to_a_bound_and_differ_between_pods() -> None:
    policy = RetryPolicy(first=1, longest=60)
    assert [policy.delay(n, 0.999999) for n in (1, 2, 7, 1000)] == pytest.approx([1, 2, 60, 60])
    assert policy.delay(3, 0.0) < policy.delay(3, 0.9)
