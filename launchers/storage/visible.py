"""Verify that all nodes share the workspace: each sees the outputs that rank 0 made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.storage import marker

PATIENCE = 60.0
"""Seconds in which rank 0's files must appear on the other nodes (NFS caches attributes)."""


def await_outputs(outputs: Sequence[Sequence[str]], *, patience: float = PATIENCE) -> None:
    """Check that this node sees rank 0's outputs, on a workspace that really is shared.

    Raises:
        LaunchError: CONFIG naming the first output that is missing or differs.
    """
    stop = time.monotonic() + patience
    for path, digest in outputs:
        while (seen := _digest(Path(path))) != digest:
            if time.monotonic() >= stop:
                what = "differs" if seen else "is missing"
                raise LaunchError(
                    Exit.CONFIG,
                    f"{path} {what} on this node after {patience:.0f} s",
                    "use a workspace that all pods share: existingClaim, pvc (ReadWriteMany), nfs",
                )
            time.sleep(0.5)


def _digest(path: Path) -> str:
    there = marker.read(path)
    return "" if there is None else marker.digest(there)
