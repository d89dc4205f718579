"""Clocks, power and temperature from nvidia-smi during a run."""

import statistics
import subprocess
import time
from dataclasses import dataclass, field

FIELDS = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "watts": "power.draw",
    "celsius": "temperature.gpu",
    "utilization": "utilization.gpu",
}
EVERY = 10.0
"""Seconds between samples."""


@dataclass(kw_only=True)
class Sampler:
    """Recent samples; those of the run's start are dropped."""

    samples: list[list[dict[str, float]]] = field(default_factory=list)
    last: float = 0.0

    def look(self) -> None:
        if time.monotonic() - self.last < EVERY:
            return
        self.last = time.monotonic()
        if seen := sample():
            self.samples.append(seen)

    def summary(self, newest: int = 3) -> dict[str, float]:
        """Return the medians over the GPUs and the recent samples, without the last one."""
        rows = [gpu for each in self.samples[-newest - 1 : -1] or self.samples for gpu in each]
        names = FIELDS if rows else {}
        return {name: statistics.median(row[name] for row in rows) for name in names}


def sample() -> list[dict[str, float]]:
    """Return one reading per GPU; none if nvidia-smi is missing or unusable."""
    query = ",".join(FIELDS.values())
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse(done.stdout) if done.returncode == 0 else []


def parse(text: str) -> list[dict[str, float]]:
    """Parse the output of nvidia-smi; an unknown value is 0.

    >>> parse("1980, 3201, 512.5, 50, [N/A]\\n")[0]["watts"]
    512.5
    """
    return [
        dict(zip(FIELDS, map(_number, line.split(",")), strict=True))
        for line in text.splitlines()
        if line.count(",") == len(FIELDS) - 1
    ]


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0
