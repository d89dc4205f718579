"""Power of this process's GPU by the driver's energy counter, in a thread off the step's path.

NVML's library comes with the driver. ``nvmlDeviceGetTotalEnergyConsumption``: millijoules since the
driver was loaded, on Volta and later; not on a MIG instance.
"""

import ctypes
import threading
import time
from contextlib import suppress

STALE_SECONDS = 15.0
"""Age from which a sample no longer counts: a faulty GPU may block the driver."""


class PowerMeter:
    """Samples the counter each second; ``watts`` never waits."""

    def __init__(self, uuid: str) -> None:
        """Start the thread; an empty ``uuid`` measures nothing."""
        self._first, self._last, self._watts = (0.0, 0), (0.0, 0), 0.0
        if uuid:
            work = (f"GPU-{uuid.removeprefix('GPU-')}".encode(),)
            threading.Thread(target=self._work, args=work, name="power", daemon=True).start()

    def watts(self) -> float:
        """Return the mean power since the sample of the call before; 0 if it is not known."""
        (begin, before), (end, now) = self._first, self._last
        if end > begin > 0:
            self._watts = (now - before) / 1e3 / (end - begin)
        self._first = (end, now)
        return self._watts if time.monotonic() - end < STALE_SECONDS else 0.0

    def _work(self, uuid: bytes) -> None:
        with suppress(OSError, AttributeError):  # no driver, or one without the counter
            nvml, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
            found, read = ctypes.c_ulonglong(), nvml.nvmlDeviceGetTotalEnergyConsumption
            if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(gpu)):
                return
            while not read(gpu, ctypes.byref(found)):
                self._last = (time.monotonic(), found.value)
                time.sleep(1.0)
