"""Fake local runner of the tests of ``faults``: writes the files of a run, step by step.

``python -m tests.gpu.launcher.fake_launch HOME PODS STEPS SAVES MODE`` resumes from the newest
complete checkpoint, writes one row per step, starts a checkpoint and completes it after a delay. It
has a child named like torchrun's agent, which has a child named like a rank; when that is killed,
the next attempt begins.
SIGTERM in a save ends it once the save is complete, in a step once that is saved. MODE ``tears``
leaves the checkpoint incomplete then; ``loses`` does not save the step; ``forgets`` resumes one
step late; ``drifts`` has other losses in the third attempt.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.storage import checkpoint
from launchers.system.process import kill_descendants

SLOW = 0.4
"""Duration of a save in seconds."""
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], 'rlhf.py'])"


class Stopped(Exception):
    """SIGTERM was received."""


def stop(*_: object) -> None:
    raise Stopped


def attempt(home: Path, steps: int, saves: int, mode: str) -> bool:
    """Train; return whether the last step was reached."""
    folder = home / "checkpoints"
    number = len(list((home / "attempts").glob("*"))) + 1
    (home / "attempts" / str(number)).mkdir(parents=True)
    newest = checkpoint.newest(folder)
    begin = (newest.step if newest else 0) + (mode == "forgets" and number > 1)
    sleep = "import time; time.sleep(600)"
    agent = [sys.executable, "-c", CHILD, sleep, "torch.distributed.run"]
    with subprocess.Popen(agent) as running:
        try:
            for step in range(begin + 1, steps + 1):
                if running.poll() is not None:
                    return False
                try:
                    time.sleep(0.15)
                except Stopped:
                    if mode != "loses":
                        save(folder / f"checkpoint-{step - 1}", step - 1, mode)
                    raise
                loss = 0.69 - step / 1000 + (mode == "drifts" and number > 2) / 100
                row = Row(
                    step=step,
                    total=steps,
                    attempt=number,
                    time=time.time(),
                    seconds=0.15,
                    values={"loss": loss},
                )
                with (home / "metrics.jsonl").open("a") as stream:
                    stream.write(rows.line(row) + "\n")
                if step % saves == 0:
                    save(folder / f"checkpoint-{step}", step, mode)
            return True
        finally:
            kill_descendants()


def save(folder: Path, step: int, mode: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_text("w")
    try:
        time.sleep(SLOW)
    except Stopped:
        if mode != "tears":
            checkpoint.seal(folder, step)
        raise
    checkpoint.seal(folder, step)


def main() -> int:
    home, pods, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[5]
    signal.signal(signal.SIGTERM, stop)
    try:
        while not attempt(home, int(sys.argv[3]), int(sys.argv[4]), mode):
            pass
    except Stopped:
        for pod in ("node-0", "node-1"):
            log = pods / "0" / pod / "dev" / "termination-log"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(json.dumps({"code": 143 if mode == "tears" else 75, "rank": 0}))
        return 143
    return 0


if __name__ == "__main__":
    sys.exit(main())
