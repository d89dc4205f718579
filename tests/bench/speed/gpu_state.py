"""Clocks, power, temperature and memory from nvidia-smi during a run."""

import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

FIELDS = {
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "watts": "power.draw",
    "celsius": "temperature.gpu",
    "utilization": "utilization.gpu",
    "used_mib": "memory.used",
}
EVERY = 2.0
"""Seconds between samples; on these GPUs ``power.draw`` is the mean of the last second."""


@dataclass(kw_only=True)
class Sampler:
    """Samples of a run's GPUs, by their time (Unix)."""

    gpus: Sequence[int] = ()
    """Numbers of the GPUs; all of the host if empty."""
    samples: dict[float, list[dict[str, float]]] = field(default_factory=dict)
    last: float = 0.0

    def look(self) -> None:
        if time.monotonic() - self.last < EVERY:
            return
        self.last = time.monotonic()
        if seen := sample(self.gpus):
            self.samples[time.time()] = seen

    def summary(self, begin: float, end: float) -> dict[str, float]:
        """Return the means over GPUs and samples between two times, and the number of samples.

        >>> found = {1.0: [{"watts": 90.0}], 3.0: [{"watts": 500.0}, {"watts": 700.0}]}
        >>> Sampler(samples=found).summary(2.0, 4.0)
        {'samples': 1, 'watts': 600.0}
        >>> Sampler(samples=found).summary(4.0, 5.0)
        {}
        """
        inside = [rows for at, rows in self.samples.items() if begin <= at <= end]
        rows = [gpu for each in inside for gpu in each]
        if not rows:
            return {}
        means = {name: round(statistics.mean(row[name] for row in rows), 2) for name in rows[0]}
        return {"samples": len(inside), **means}


def sample(gpus: Sequence[int] = ()) -> list[dict[str, float]]:
    """Return one reading per GPU; none if nvidia-smi is missing or unusable."""
    query = ",".join(FIELDS.values())
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    command += ["--id=" + ",".join(map(str, gpus))] if gpus else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse(done.stdout) if done.returncode == 0 else []


def parse(text: str) -> list[dict[str, float]]:
    """Parse the output of nvidia-smi; an unknown value is 0.

    >>> parse("1980, 3201, 512.5, 50, [N/A], 79000\\n")[0]["watts"]
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
