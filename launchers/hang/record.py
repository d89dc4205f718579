"""``attempts/<n>/hang.json``: rank 0's findings about a hang."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.hang.culprit import EXITED, Culprit
from launchers.hang.silence import Silence
from launchers.hang.worker import Worker
from launchers.system import atomic_file, training_end
from launchers.system.threads import in_thread

FILE = "hang.json"
VERSION = 1
WRITE_SECONDS = 5.0
"""Time for writing it to the workspace, which may be what hangs."""
_FILES = ("stacks-*.txt", "flight-recorder/*")


def sentence(silence: Silence, culprit: Culprit) -> str:
    """Return the verdict in one line.

    >>> silent = Silence(seconds=312.4, limit=300.0, phase="step")
    >>> found = Culprit(kind="stopped", ranks=(3,), node=1, why="rank 3 is stopped")
    >>> sentence(silent, found)
    'hang: no rank gave a heartbeat for 312 s (limit 300 s) in phase step; rank 3 is stopped'
    """
    if silence.phase == "end":
        return (
            f"hang: the training processes of node {culprit.node} ended {silence.seconds:.0f} s "
            f"ago (limit {silence.limit:.0f} s), and its torchrun has not; {culprit.why}"
        )
    if silence.phase == "write":
        return f"hang: {culprit.why} (limit {silence.limit:.0f} s)"
    prefix = "" if culprit.kind == EXITED else "hang: "
    return (
        f"{prefix}no rank gave a heartbeat for {silence.seconds:.0f} s "
        f"(limit {silence.limit:.0f} s) in phase {silence.phase}; {culprit.why}"
    )


def error(cause: str, kind: str = "") -> LaunchError:
    """Return the error that ends the node whose rank hangs, or has left the others waiting."""
    if kind == EXITED:
        return training_end.incomplete(cause)
    return LaunchError(
        Exit.HANG,
        cause,
        f"see {FILE} and stacks-*.txt in the attempt's folder; if a phase is slow and does not "
        "hang, raise restarts.hang.floors",
        id="hang",
    )


def document(
    silence: Silence, workers: Sequence[Worker], culprit: Culprit, files: Sequence[str]
) -> Mapping[str, Any]:
    """Return the content of the file."""
    return {
        "version": VERSION,
        "time": round(time.time(), 3),
        **asdict(silence),
        "culprit": asdict(culprit),
        "ranks": [each.to_wire() for each in sorted(workers, key=lambda each: each.rank)],
        "files": list(files),
    }


def write(attempt: Path, silence: Silence, workers: Sequence[Worker], culprit: Culprit) -> None:
    """Write the file; a workspace that hangs or is full must not keep the gang from ending."""

    def act() -> None:
        found = sorted(str(path.relative_to(attempt)) for p in _FILES for path in attempt.glob(p))
        content = document(silence, workers, culprit, found)
        atomic_file.replace(attempt / FILE, json.dumps(content, indent=1) + "\n")

    try:
        in_thread(act, WRITE_SECONDS)
    except (OSError, TimeoutError) as broken:
        logs.warning(f"{FILE} not written", cause=broken)
