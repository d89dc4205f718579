"""Locks with short intervals, for tests."""

from __future__ import annotations

from pathlib import Path

from launchers.storage.lock import Lock

QUICK = {"stale": 0.4, "beat": 0.05, "poll": 0.01}
"""Seconds."""


def quick(path: Path, who: str = "me") -> Lock:
    """Return a lock with short intervals."""
    return Lock(path, who, **QUICK)
