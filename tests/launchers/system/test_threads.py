import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from launchers.system.threads import each, in_thread, repeat
from tests.launchers.waiting import eventually

ROOT = Path(__file__).parents[3]


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


def test_a_signal_is_heard_while_something_aside_blocks_in_c() -> None:
    """A mutex that is locked twice, like a name server that is silent, lets no handler run."""
    blocks = """
import ctypes, signal
from launchers.system.threads import in_thread
def stop(*_):
    raise SystemExit(143)
signal.signal(signal.SIGTERM, stop)
c, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
c.pthread_mutex_lock(mutex)
print("blocked", flush=True)
in_thread(lambda: c.pthread_mutex_lock(mutex))
"""
    process = subprocess.Popen([sys.executable, "-c", blocks], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(timeout=5) == 143
    finally:
        process.kill()
        process.communicate()


def test_what_fails_aside_fails_here() -> None:
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 / 0)


def test_slow_background_work_delays_no_caller() -> None:
    def silent() -> str:
        time.sleep(5)
        return ""

    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        in_thread(silent, 0.2)
    assert time.monotonic() - begin < 1
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: str(1 // 0), 1)
    assert in_thread(lambda: "x", 1) == "x"


def test_what_is_repeated_continues_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def act() -> None:
        calls.append(len(calls))
        if len(calls) in (1, 2, 4):
            raise ValueError("seen" if len(calls) < 3 else "another")

    with repeat(act, 0.01, "watchdog") as thread:
        assert eventually(lambda: len(calls) >= 6) and thread.is_alive()
    warnings = [each.message for each in caplog.records if "watchdog" in each.message]
    assert len(warnings) == 2 and "seen" in warnings[0] and "another" in warnings[1]  # once each
