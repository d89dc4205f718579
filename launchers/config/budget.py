"""What a run may use: the chart's ``budget``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from launchers.config.env import integer
from launchers.exits import Exit, LaunchError

SETTINGS = ("DPO_BUDGET_GPU_MINUTES", "DPO_BUDGET_BY")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Minutes of GPUs (on CPU of processes) and a Unix time, at which a run ends with an export."""

    gpu_minutes: float = math.inf
    by: float = math.inf

    def over(self, held: float, now: float) -> str:
        """Return what is spent after so many GPU-seconds at a Unix time; empty for nothing.

        >>> Budget(gpu_minutes=2).over(120.0, 0.0), Budget(by=99.0).over(0.0, 90.0)
        ('budget.gpuMinutes', '')
        """
        if held >= self.gpu_minutes * 60:
            return "budget.gpuMinutes"
        return "budget.by" if now >= self.by else ""


def from_env(env: Mapping[str, str]) -> Budget:
    """Parse the environment: ``DPO_BUDGET_GPU_MINUTES=7230 DPO_BUDGET_BY=2026-12-01T08:00:00Z``.

    Raises:
        LaunchError: CONFIG, naming the setting, what was given and what is allowed.
    """
    minutes, by = (env.get(name, "") for name in SETTINGS)
    try:
        time = datetime.fromisoformat(by or "9999-01-01T00:00:00Z")
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        cause, remedy = f"DPO_BUDGET_BY={by!r}", "use a time in UTC, such as 2026-12-01T08:00:00Z"
        raise LaunchError(Exit.CONFIG, cause, remedy, id="env-time")
    given = integer(env, SETTINGS[0], 1) if minutes else math.inf
    return Budget(gpu_minutes=given, by=time.timestamp() if by else math.inf)
