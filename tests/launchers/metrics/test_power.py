"""The power of a GPU by a driver that counts, has no counter, does not answer, or is not there."""

import ctypes
import threading
import time
from typing import Any

import pytest

from launchers.metrics import power
from launchers.metrics.power import PowerMeter
from tests.launchers.waiting import eventually


class Driver:
    """NVML with a GPU of 300 W."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.status = 0

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, _: Any) -> int:  # noqa: N802
        self.asked.append(uuid)
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, _: Any, found: Any) -> int:  # noqa: N802
        found._obj.value = int(300_000 * time.monotonic())
        return self.status


def test_the_mean_power_since_the_call_before(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    meter = PowerMeter("1b2c")
    assert eventually(lambda: meter.watts() > 0)
    assert meter.watts() == pytest.approx(300, rel=0.02)
    assert driver.asked == [b"GPU-1b2c"]
    monkeypatch.setattr(power, "STALE_SECONDS", -1.0)  # a driver that no longer answers
    assert meter.watts() == 0
    driver.status = 3  # NVML_ERROR_NOT_SUPPORTED: the thread, which outlives the test, ends
    assert eventually(lambda: "power" not in [each.name for each in threading.enumerate()])


def test_without_a_counter_or_a_driver_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    driver.status = 3
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    blind = PowerMeter("GPU-1")
    time.sleep(0.1)
    assert blind.watts() == 0
    monkeypatch.undo()
    assert PowerMeter("").watts() == 0
