"""``held.json``: for how long a run has held its pods, over all starts; written by rank 0."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from launchers.config.settings import Settings
from launchers.metrics.rows import is_number
from launchers.progress.phases import process_start
from launchers.progress.progress import quietly
from launchers.storage import run_lease
from launchers.system.atomic_file import read_object, replace
from launchers.system.threads import repeat

INTERVAL_SECONDS = 10.0
"""Seconds between two writes: a start that is killed may have lasted so much longer."""


class Held:
    """The seconds of earlier starts and of this one, from the start of rank 0's container."""

    def __init__(self, settings: Settings) -> None:
        """Read the seconds of earlier starts; one that was killed counts as ``INTERVAL`` longer."""
        work, self._budget = settings.launch.work, settings.training.budget
        self._processes = settings.launch.world_size
        self.identity = {"budget": str(self._budget)}
        """What the export of a run has been made from that its budget has ended."""
        found = read_object(work.held)
        known = found.get("seconds"), read_object(work.progress).get("held_seconds")
        self._path = work.held
        self._before = max([float(each or 0) for each in known if is_number(each)], default=0.0)
        self._before += 0.0 if found.get("ended", True) else INTERVAL_SECONDS
        # not the clock of the day, which may be set while the run lasts
        self._began = time.monotonic() - max(0.0, time.time() - process_start())

    def seconds(self) -> float:
        """Return the seconds until now."""
        return self._before + time.monotonic() - self._began

    def over(self, needs: float) -> str:
        """Return why the run must end, see ``Budget.over``; empty while it may continue."""
        return self._budget.over(self.seconds(), self._processes, time.time(), needs)

    def write(self, *, ended: bool = False) -> None:
        """Write the file."""
        run_lease.check()
        text = json.dumps({"seconds": round(self.seconds(), 3), "ended": ended})
        replace(self._path, text + "\n")


@contextmanager
def holding(settings: Settings) -> Iterator[Held]:
    """Keep the file up to date while the block runs; an error of the storage ends nothing."""
    held = Held(settings)
    quietly(held.write)
    try:
        with repeat(lambda: quietly(held.write), INTERVAL_SECONDS, "held"):
            yield held
    finally:
        quietly(lambda: held.write(ended=True))
