"""How long the saves of a run take: known to later attempts, whose limit of a hang follows it."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from launchers.config.workspace import Workspace
from launchers.system.atomic_file import read_object, replace
from launchers.system.threads import in_thread

FILE = "saves.json"
"""In the folder of an attempt: the seconds of its longest save, as rank 0's node has seen it."""
WRITE_SECONDS = 5.0
"""Time for writing it to the workspace, which may be what hangs."""


def known(work: Workspace) -> float:
    """Return the seconds of the run's longest save, or of a save as planned; 0 if unknown."""
    planned = read_object(work.plan).get("footprint")
    found = [planned.get("save_seconds") if isinstance(planned, dict) else None]
    found += [read_object(path).get("longest") for path in work.attempts.glob(f"*/{FILE}")]
    return max((float(each) for each in found if isinstance(each, int | float)), default=0.0)


def recorder(folder: Path) -> Callable[[float], object]:
    """Return a function that records the longest save of an attempt, in seconds, if it grew."""
    last = known(Workspace.of(folder.parent.parent))

    def record(longest: float) -> None:
        nonlocal last
        if longest > last:
            last = longest
            text = json.dumps({"longest": longest}) + "\n"
            with contextlib.suppress(OSError, TimeoutError):
                in_thread(lambda: replace(folder / FILE, text), WRITE_SECONDS)

    return record
