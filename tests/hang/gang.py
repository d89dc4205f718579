"""Two real launchers whose torchrun runs the stand-in trainer; one fault is injected."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launchers.hang.record import FILE
from launchers.system.process import descendants
from scripts.helm import ROOT
from tests.hang.cases import NODES, PER_NODE, Case
from tests.launchers.pods import FAKES, Pods
from tests.launchers.processes import signal_all
from tests.launchers.training_environment import launcher_words

FLOORS = "start=120,first_step=15,data=5,step=5,evaluation=5,save=5,reference=5,end=25"
LIMIT_SECONDS = 300.0
"""Of a whole case; the machine may be busy."""
NOTICED = b" peer lost "
"""Event of the launcher's log."""
PROGRAM = "from tests.hang.trainer import main\n\nmain()\n"


@dataclass(kw_only=True)
class Outcome:
    case: Case
    codes: list[int | None]
    """Exit codes of the launchers; None of one that was killed while frozen."""
    seconds: float | None
    """From the injection until a launcher has noticed it; None if none has."""
    culprit: dict[str, Any] | None
    """Of ``hang.json``."""
    cause: str
    """Of the termination message of a launcher that was not frozen."""
    log: str = ""

    @property
    def verdict(self) -> str:
        """Return ``right``, ``unknown``, ``wrong`` or ``missed``."""
        if self.case.kind == "none":
            is_whole = self.culprit is None and self.codes == [0] * NODES
            return "right" if is_whole else "wrong"
        if self.case.kind == "launcher":
            name = f"rank {self.case.node} "
            return "right" if name in self.cause and "no message for" in self.cause else "missed"
        if self.culprit is None:
            return "missed"
        if self.case.kind == "torchrun":
            named = (self.culprit["kind"], self.culprit["node"]) == ("torchrun", self.case.node)
            return "right" if named and self.codes == self.case.ends else "wrong"
        if not self.culprit["ranks"]:
            return "unknown"
        is_right = self.culprit["ranks"] == [self.case.rank] and self.codes == self.case.ends
        return "right" if is_right else "wrong"

    def row(self) -> dict[str, Any]:
        kind = self.culprit["kind"] if self.culprit else None
        return {
            **asdict(self.case),
            "verdict": self.verdict,
            "seconds": self.seconds,
            "codes": self.codes,
            "rule": kind,
            "cause": re.sub(r"/\S+/", "", self.cause),  # without the folders of this machine
        }


class Gang(Pods):
    def __init__(self, folder: Path, case: Case) -> None:
        """Write recipe, sources and the stand-in for ms-swift."""
        self.case = case
        super().__init__(folder, nodes=NODES)
        swift = folder / "packages" / "swift"
        shutil.copytree(FAKES / "swift", swift)
        (swift / "cli").mkdir()
        (swift / "cli" / "rlhf.py").write_text(PROGRAM)

    def env(self, rank: int, **change: str) -> dict[str, str]:
        """Return the environment of a pod: torch is real, ms-swift the stand-in."""
        return {
            **super().env(rank, **change),
            "PYTHONPATH": f"{ROOT}:{self.folder / 'packages'}",
            "DPO_GPUS_PER_NODE": str(PER_NODE),
            "DPO_GANG_DEADLINE": "120",
            "DPO_HANG_FLOORS": FLOORS,
            "SKIP_PREFLIGHT": "1",
            "HANG_CASE": self.case.text(),
            "HANG_MARK": str(self.mark),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }

    def begin(self, rank: int) -> subprocess.Popen[bytes]:
        words, env = launcher_words("run"), self.env(rank)
        with self.output(rank).open("wb") as log:
            return subprocess.Popen(
                words, cwd=self.folder, env=env, stdout=log, stderr=subprocess.STDOUT
            )

    def output(self, rank: int) -> Path:
        return self.folder / f"pod-{rank}.log"

    @property
    def mark(self) -> Path:
        """Return the file with the time at which the step of the fault began."""
        return self.folder / "struck"

    @property
    def attempt(self) -> Path:
        return self.run / "attempts" / "1"


def run(folder: Path, case: Case) -> Outcome:
    gang = Gang(folder, case)
    pods = [gang.begin(rank) for rank in range(NODES)]
    frozen: int | None = None
    struck: float | None = None
    noticed: float | None = None
    stopped = False
    stop = time.monotonic() + LIMIT_SECONDS
    try:
        while time.monotonic() < stop and any(pod.poll() is None for pod in pods):
            if frozen is None and gang.mark.exists():
                struck = float(gang.mark.read_text())
            if struck and case.kind == "launcher" and frozen is None:
                frozen = case.node
                pods[frozen].send_signal(signal.SIGSTOP)
                struck = time.time()
            if struck and case.kind == "torchrun" and not stopped:
                stopped = _stop_torchrun(pods[case.node])
            noticed = noticed or _noticed(gang)
            others = [pod for rank, pod in enumerate(pods) if rank != frozen]
            if frozen is not None and all(pod.poll() is not None for pod in others):
                break  # on a cluster the liveness probe ends the frozen pod
            time.sleep(0.1)
        codes = [None if rank == frozen else pod.poll() for rank, pod in enumerate(pods)]
    finally:
        for pod in pods:
            _end(pod)
    seen = 0 if frozen != 0 else 1
    hang = gang.attempt / FILE
    return Outcome(
        case=case,
        codes=codes,
        seconds=round(noticed - struck, 1) if noticed and struck else None,
        culprit=json.loads(hang.read_text())["culprit"] if hang.exists() else None,
        cause=gang.message(seen)["cause"] if gang.log(seen).exists() else "",
        log="\n".join(gang.output(rank).read_text(errors="replace")[-4000:] for rank in (0, 1)),
    )


def _stop_torchrun(pod: subprocess.Popen[bytes]) -> bool:
    """Stop the torchrun of a launcher; return whether there is one."""
    for pid in descendants(pod.pid):
        if b"torch.distributed.run" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGSTOP)
            return True
    return False


def _noticed(gang: Gang) -> float | None:
    """Return the time if a launcher has noticed the fault: a hang ends the others as a loss."""
    said = [gang.output(rank).read_bytes() for rank in range(NODES)]
    return time.time() if any(NOTICED in each for each in said) else None


def _end(pod: subprocess.Popen[bytes]) -> None:
    """Kill a launcher that still runs, and what it has started."""
    if pod.poll() is None:
        signal_all([pod.pid, *descendants(pod.pid)], signal.SIGKILL)
    pod.wait()
