"""A run under test, its pods, and its processes as this host sees them."""

import contextlib
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers.metrics import reader
from launchers.metrics.rows import Row
from tests.e2e.release import Release
from tests.e2e.runs import Pod, Run

TRAINER = "rlhf.py"
"""Program of ms-swift in the command line of a training process."""
AGENT = "torch.distributed.run"
"""In the command line of torchrun, which names the program, too."""


@dataclass(frozen=True, kw_only=True)
class Process:
    pid: int
    """In the host's namespace."""
    argv: tuple[str, ...]


def processes(pod: str) -> list[Process]:
    """List the processes of a pod by the environment that the chart gives to its container."""
    wanted, found = f"DPO_POD_NAME={pod}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().decode(errors="replace")
                argv = tuple(words.rstrip("\0").split("\0"))
                found.append(Process(pid=int(folder.name), argv=argv))
    return sorted(found, key=lambda each: each.pid)


def trainer_of(found: Sequence[Process]) -> int | None:
    """Return the first process of a pod that trains: not torchrun, which starts it."""
    for each in found:
        if AGENT not in each.argv and any(TRAINER in word for word in each.argv):
            return each.pid
    return None


@dataclass(frozen=True, kw_only=True)
class Target:
    name: str
    run: Run
    release: Release

    def pod(self, chance: random.Random) -> Pod | None:
        """Choose one of the running pods; None while the gang is not complete."""
        found = [pod for pod in self.run.pods() if pod.phase == "Running" and not pod.ending]
        return chance.choice(found) if len(found) > 1 else None

    def trainer(self, pod: str) -> int | None:
        return trainer_of(processes(pod))

    def launcher(self, pod: str) -> int | None:
        found = processes(pod)
        return found[0].pid if found else None

    def send(self, pid: int | None, number: signal.Signals) -> bool:
        """Send a signal; return whether there was such a process."""
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def rows(self) -> list[Row]:
        """Return all rows of ``metrics.jsonl``, including repeated steps."""
        try:
            text = (self.run.home / "metrics.jsonl").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return list(reader.of_kind(text.splitlines(), Row))
