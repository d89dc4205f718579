import logging
import time

import pytest

from launchers.system.log_periodically import log_periodically


def test_silent_work_says_where_it_is_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="launchers")
    done = iter(range(1000))
    with log_periodically("download working", lambda: {"bytes": next(done)}, every=0.05):
        time.sleep(0.3)
    lines = [record.getMessage() for record in caplog.records]
    assert 3 <= len(lines) <= 6
    assert lines[0].startswith("download working bytes=0 seconds=")
    assert lines[1].startswith("download working bytes=1 seconds=")


def test_a_measure_that_fails_does_not_end_the_work(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="launchers")

    def measure() -> dict[str, object]:
        raise OSError(5, "Input/output error")

    with log_periodically("download working", measure, every=0.02):
        time.sleep(0.1)
    assert "Input/output error" in caplog.text
