"""The kill of a rehearsal: one training process ends itself with SIGKILL, once.

The process does so itself, because only it knows that a step has just ended: seen from outside, a
run of fast steps would be over before the signal.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.rehearsal.rehearsal import KILL_RECORD, KILL_VARIABLE
from launchers.storage import checkpoint
from launchers.system import lookup
from launchers.system.atomic_file import replace

SAVE_TIMEOUT_SECONDS = 600.0
"""Time that the process waits for a save which continues in the background."""
POLL_SECONDS = 0.05


def kill_step(env: Mapping[str, str]) -> int | None:
    """Return the step after which this process kills itself; None if it does not.

    It is the first process of the last node; ``LOCAL_RANK`` is torchrun's.
    """
    step = env.get(KILL_VARIABLE, "")
    return int(step) if step and env.get("LOCAL_RANK", "0") == "0" else None


def kill_once(env: Mapping[str, str], step: int) -> None:
    """Kill this process, unless one of this rehearsal has been killed before.

    Waits for a complete checkpoint; without one there is nothing to resume from, and the process
    continues.
    ``step``: the number of completed steps.
    """
    home = Path(env["DPO_RUN_FOLDER"])
    record = home / KILL_RECORD
    if lookup.exists(record):
        return
    stop = time.monotonic() + SAVE_TIMEOUT_SECONDS
    while checkpoint.newest(home / "checkpoints") is None:
        if time.monotonic() >= stop:
            logs.warning("rehearsal: no process is killed", cause="no complete checkpoint")
            return
        time.sleep(POLL_SECONDS)
    fields = {"time": time.time(), "step": step, "rank": int(env.get("RANK", "0"))}
    replace(record, json.dumps(fields) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)
