"""No pod lives for ever, whichever process of whichever node ends or is stopped.

launcher, torchrun or training process; stopped, killed, or ended with exit code 0 although training
is not over; on rank 0 or another one. A launcher that is stopped after training is continued by the
liveness probe (``tests/chart/test_hang.py``): it has no peer any more.
"""

import ctypes
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit
from launchers.system import process
from launchers.system.process import adopt_orphans
from scripts.helm import ROOT
from tests.faults.case import Case
from tests.faults.catalogue import Expected, Fault
from tests.faults.gang import TRAINER, signal_pod
from tests.launchers.pods import FAKES

SOONER = """
import os, signal, sys
if "launchers" in sys.orig_argv:
    from launchers.gang import peer_monitor
    peer_monitor.SILENCE_LIMIT_SECONDS, peer_monitor.KEEPALIVE_INTERVAL_SECONDS = 6.0, 0.5
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
"""
"""``sitecustomize.py`` of the launchers: shorter limits, and an end with exit code 0 on SIGUSR1."""
TRAIN: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("torchrun", "stopped"): {"do": "freeze", "at": "end", "step": 8},
    ("torchrun", "killed"): {"do": "kill", "word": "SIGKILL", "step": 5},
    ("torchrun", "ended"): {"do": "exit", "word": 0, "step": 5},
    ("worker", "stopped"): {"do": "kill", "word": "SIGSTOP", "step": 5},
    ("worker", "killed"): {"do": "die", "word": -9, "step": 5},
}
"""What the stand-in for torchrun and its only worker does; its end with 0 is that of both."""
LAUNCHER = {"stopped": signal.SIGSTOP, "killed": signal.SIGKILL, "ended": signal.SIGUSR1}
FIRST_CODES: Mapping[tuple[str, str], set[int]] = {
    ("launcher", "stopped"): {Exit.PEER},
    ("launcher", "killed"): {Exit.PEER, 137},
    ("launcher", "ended"): {Exit.PEER},
    ("torchrun", "stopped"): {Exit.HANG},
    ("torchrun", "killed"): {Exit.PEER},
    ("torchrun", "ended"): {Exit.INCOMPLETE},
    ("worker", "stopped"): {Exit.HANG},
    ("worker", "killed"): {Exit.PEER},
}
"""Exit codes of the pod that decides about the restart."""


class Ends(Case):
    """A run in which a signal may be sent to a launcher."""

    to_launcher: signal.Signals | None = None
    rank = 0

    def _watch(self) -> None:
        if self.to_launcher is None or self._acted or self._last_step() < 4:
            return
        self._acted = True
        self._note()
        signal_pod(self.gang.pods[self.rank], self.to_launcher.name)


@pytest.fixture(autouse=True)
def _orphans_adopted() -> Iterator[None]:
    """Make this process the parent of what a launcher leaves, so that it is counted."""
    adopt_orphans()
    yield
    ctypes.CDLL(None).prctl(process._PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("who", "how"), FIRST_CODES)
def test_all_pods_end(who: str, how: str, rank: int, tmp_path: Path) -> None:
    train = dict(TRAIN[who, how], rank=rank) if who != "launcher" else {}
    floors = "step=4,save=4,end=10"
    if who == "launcher":  # training lasts until the launcher's peer has noticed
        train, floors = {"do": "slow", "word": 12, "step": 5, "rank": 0}, "step=60"
    fault = Fault(
        name=f"{who}-{how}",
        level="process",
        group="ends",
        inject={"train": train, "env": {"DPO_HANG_FLOORS": floors}},
        expect=Expected(outcome="resumed", restarts="counted"),
    )
    case = Ends(fault, 0, tmp_path)
    if who == "launcher":
        case.to_launcher, case.rank = LAUNCHER[how], rank
    (tmp_path / "sitecustomize.py").write_text(SOONER)
    path = ":".join(map(str, (tmp_path, TRAINER, ROOT, FAKES)))
    case.gang.wrapper = ("env", f"PYTHONPATH={path}")
    result = case.run()
    logs = "".join(case.gang.output(each).read_text() for each in (0, 1))
    assert result.outcome in ("resumed", "failed"), logs
    assert case.gang.ends[0].code in FIRST_CODES[who, how], logs
    assert result.orphans == 0
