"""What a run may use: the chart's ``budget``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from launchers.config.env import integer
from launchers.exits import Exit, LaunchError

SETTINGS = ("DPO_BUDGET_GPU_MINUTES", "DPO_BUDGET_BY")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Minutes of GPUs and a time, at which a run ends with a checkpoint and an export."""

    gpu_minutes: float = math.inf
    """Of all pods since the first start; on CPU the minutes of its processes."""
    by: float = math.inf
    """Unix time."""

    def over(self, held: float, processes: int, now: float, needs: float) -> str:
        """Return why training must end now; empty while it may continue.

        Args:
            held: seconds for which the run has held its pods.
            processes: training processes of the gang.
            now: Unix time.
            needs: seconds of what must still be done: the end of a step, and a save.

        >>> Budget(gpu_minutes=120).over(3000.0, 2, 0.0, 700.0)
        'budget.gpuMinutes: 120'
        >>> Budget(by=100.0).over(0.0, 2, 90.0, 5.0), Budget(by=100.0).over(0.0, 2, 90.0, 10.0)
        ('', 'budget.by: 1970-01-01T00:01:40Z')
        """
        if (held + needs) * processes >= self.gpu_minutes * 60:
            return f"budget.gpuMinutes: {self.gpu_minutes}"
        if now + needs >= self.by:
            return f"budget.by: {datetime.fromtimestamp(self.by, UTC):%Y-%m-%dT%H:%M:%SZ}"
        return ""


def from_env(env: Mapping[str, str]) -> Budget:
    """Parse the environment: ``DPO_BUDGET_GPU_MINUTES=7230 DPO_BUDGET_BY=2026-12-01T08:00:00Z``.

    Raises:
        LaunchError: CONFIG, naming the setting, what was given and what is allowed.

    >>> from_env({"DPO_BUDGET_GPU_MINUTES": "90", "DPO_BUDGET_BY": "1970-01-01T01:00:00+01:00"})
    Budget(gpu_minutes=90, by=0.0)
    """
    minutes, by = SETTINGS
    return Budget(
        gpu_minutes=integer(env, minutes, 1) if env.get(minutes) else math.inf,
        by=_time(env[by]) if env.get(by) else math.inf,
    )


def _time(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = datetime.min
    if found.tzinfo is None:
        raise LaunchError(
            Exit.CONFIG,
            f"DPO_BUDGET_BY={text!r}",
            "use a time with its zone, such as 2026-12-01T08:00:00Z",
            id="env-time",
        )
    return found.timestamp()
