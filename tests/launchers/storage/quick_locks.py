from collections.abc import Callable
from pathlib import Path

from launchers.exits import LaunchError
from launchers.storage.lock import Lock

QUICK = {"stale": 0.4, "beat": 0.05, "poll": 0.01}
"""Seconds."""


def quick(
    path: Path, who: str = "me", on_loss: Callable[[LaunchError | None], None] = lambda error: None
) -> Lock:
    stale, beat, poll = QUICK.values()
    return Lock(path, who, stale=stale, beat=beat, poll=poll, on_loss=on_loss)
