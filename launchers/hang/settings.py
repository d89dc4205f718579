"""Settings of the hang watchdog: the chart's ``restarts.hang``."""

from collections.abc import Mapping
from dataclasses import dataclass

from launchers import suggestion
from launchers.config.env import is_one
from launchers.exits import Exit, LaunchError

FLOORS = {
    "start": 7200, "first_step": 1800, "data": 600, "step": 300, "evaluation": 900, "save": 1800,
    "reference": 900, "end": 330,
}  # fmt: skip
"""Seconds without a heartbeat that are never a hang, by phase.

``start``: tokenisation gives none, and must end within ``ddp_timeout`` anyway, whose default
(``flags/command_line.py``) it has. ``first_step``: kernels are compiled, which takes minutes, and
NCCL opens its connections and may hang. It counts in all phases after the start until that step has
ended. ``end``: from the end of all processes of a node to that of its torchrun, which waits up to
300 s for those of the other nodes (``exit_barrier_timeout``)."""
SETTINGS = ("DPO_HANG_WATCHDOG", "DPO_HANG_FLOORS", "DPO_ALIVE_FILE")
LARGEST = 86_400


@dataclass(frozen=True, kw_only=True)
class Hang:
    """Settings of hang detection: whether it is on, and its limits."""

    is_watched: bool
    floors: Mapping[str, int]
    """``FLOORS`` with the user's changes."""


def from_env(env: Mapping[str, str]) -> Hang:
    """Parse the environment: ``DPO_HANG_WATCHDOG=1 DPO_HANG_FLOORS=step=120,save=3600``.

    Raises:
        LaunchError: CONFIG, naming the setting, what was given and what is allowed.

    >>> from_env({"DPO_HANG_FLOORS": "step=120"}).floors["step"], from_env({}).is_watched
    (120, True)
    """
    pairs = filter(None, env.get("DPO_HANG_FLOORS", "").split(","))
    return Hang(
        is_watched=is_one({"DPO_HANG_WATCHDOG": "1", **env}, "DPO_HANG_WATCHDOG"),
        floors={**FLOORS, **dict(map(_floor, pairs))},
    )


def _floor(text: str) -> tuple[str, int]:
    """Parse ``phase=seconds``."""
    phase, _, seconds = text.partition("=")
    if phase not in FLOORS:
        raise LaunchError(
            Exit.CONFIG,
            f"restarts.hang.floors: there is no phase {phase!r}",
            suggestion.remedy(phase, FLOORS),
            id="hang-phase-unknown",
        )
    if not (seconds.isascii() and seconds.isdecimal()) or not 1 <= int(seconds) <= LARGEST:
        raise LaunchError(
            Exit.CONFIG,
            f"restarts.hang.floors.{phase}: {seconds!r}",
            f"use whole seconds from 1 to {LARGEST}",
            id="hang-floor",
        )
    return phase, int(seconds)
