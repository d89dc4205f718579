"""Heartbeat of the launcher itself: a file whose time the pod's liveness probe reads.

A launcher that is frozen (SIGSTOP of pid 1) handles no SIGTERM, and its peers cannot replace it:
once they have ended, the pod is deleted with its whole grace period. The probe sends it SIGCONT,
before its peers miss it, and fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from launchers import logs
from launchers.system.threads import repeat

BEAT_SECONDS = 3.0
"""The chart's probe counts the launcher as frozen once the file is older than five beats."""


@contextmanager
def beating(path: Path | None) -> Iterator[None]:
    """Renew the file's time inside this context; without a path, or on an error, do nothing.

    The probe passes while there is no file.
    """
    try:
        if path is not None:
            path.touch()
    except OSError as error:
        logs.warning("no heartbeat of the launcher", path=path, cause=error)
        path = None
    if path is None:
        yield
        return
    with repeat(partial(_touch, path), BEAT_SECONDS, "alive"):
        yield


def _touch(path: Path) -> None:
    try:
        path.touch()
    except OSError as error:  # the probe must not end the pod for a full disk
        logs.warning("no heartbeat of the launcher", path=path, cause=error)
        path.unlink(missing_ok=True)
