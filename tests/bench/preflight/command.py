"""The preflight on real GPUs: ``python3 -m tests.bench preflight RESULTS [NAME ...]``.

Needs 2 or more GPUs of one host, torch and PyYAML; takes three minutes. Healthy GPUs must pass, and
each injected fault must end with its exit code and name its culprit. RESULTS gets
the result, the output of nvidia-smi and the logs of NCCL.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

from launchers.system.process import descendants
from scripts.dev import results
from tests.bench import host
from tests.bench.preflight.cases import CASES, Case

ROOT = Path(__file__).parents[3]
LOGGED = ("normal", "two-nodes", "no-nvlink")
"""Cases whose NCCL log is kept."""
HOG = """
import torch, sys, time
torch.cuda.set_device(int(sys.argv[1]))
held = torch.zeros(20 << 30, dtype=torch.uint8, device="cuda")
a = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
print("busy", flush=True)
while True:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""
"""Program that uses memory and time of one GPU, like a leftover of an earlier job."""


def nccl() -> str:
    import torch

    return ".".join(str(part) for part in torch.cuda.nccl.version())


def devices() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def environment(case: Case, rank: int, gpus: list[str], folder: Path) -> dict[str, str]:
    """Build the environment of one "node"; NCCL identifies a host by NCCL_HOSTID."""
    share = len(gpus) // case.nodes
    own = gpus[rank * share : (rank + 1) * share]
    several = {
        "NNODES": str(case.nodes),
        "NODE_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "NCCL_HOSTID": f"node-{rank}",
        "DPO_GANG_DEADLINE": "60",
    }
    return {
        **os.environ,
        "DPO_WORKSPACE": str(folder),
        "DPO_TERMINATION_LOG": str(folder / f"termination-{rank}"),
        "DPO_NODE_NAME": f"host-{rank}",
        "CUDA_VISIBLE_DEVICES": ",".join(own),
        **(several if case.nodes > 1 else {}),
        **case.env,
    }


@contextlib.contextmanager
def hogged(case: Case, gpu: str) -> Iterator[None]:
    if not case.hog:
        yield
        return
    command = [sys.executable, "-c", HOG, gpu]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hog:
        try:
            assert hog.stdout is not None
            hog.stdout.readline()
            yield
        finally:
            hog.kill()


def stop_last(world: int, folder: Path) -> None:
    phase = folder / "runs/preflight/attempts/1/preflight" / f"phase-{world - 1}"
    until = time.monotonic() + 40
    while not (phase.exists() and phase.read_text() not in ("", "start", "rendezvous")):
        if time.monotonic() > until:
            return
        time.sleep(0.005)
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if b"preflight_collective" in command and f"RANK={world - 1}".encode() in variables:
                os.kill(pid, signal.SIGSTOP)


def run(name: str, case: Case, gpus: list[str], kept: Path) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix=f"preflight-{name}-"))
    begin = time.monotonic()
    with hogged(case, gpus[-1]):
        start = time.monotonic()
        words = [sys.executable, "-m", "launchers", "preflight"]
        pipes: dict[str, Any] = {"stdout": PIPE, "stderr": STDOUT, "text": True, "cwd": ROOT}
        envs = [environment(case, rank, gpus, folder) for rank in range(case.nodes)]
        pods = [subprocess.Popen(words, env=env, **pipes) for env in envs]
        if case.stop:
            stop_last(len(gpus), folder)
        outputs = [pod.communicate(timeout=120)[0] for pod in pods]
    codes = [pod.returncode for pod in pods]
    ends = [json.loads(p.read_text()) for p in sorted(folder.glob("termination-*"))]
    reports = [json.loads(p.read_text()) for p in sorted(folder.rglob("preflight-?.json"))]
    for log in folder.rglob("nccl-0.log") if name in LOGGED else ():
        shutil.copy(log, kept / f"nccl-{name}.log")
    causes = " ".join(end["cause"] for end in ends)
    is_expected = all((code == 0) == (not case.code) for code in codes)
    passed = case.code in codes and case.says in causes and is_expected
    shutil.rmtree(folder)
    return {
        "case": name,
        "passed": passed,
        "codes": codes,
        "ends": ends,
        "seconds": round(time.monotonic() - start, 1),
        "setup_seconds": round(start - begin, 1),
        "reports": reports,
        "outputs": [] if passed else [output[-4000:] for output in outputs],
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench preflight")
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(CASES)}; or all")
    options = parser.parse_args(words)
    if wrong := set(options.names) - set(CASES):
        parser.error(f"{', '.join(sorted(wrong))} is not a case; use {', '.join(CASES)}")
    folder: Path = options.results
    folder.mkdir(parents=True, exist_ok=True)
    gpus = devices()
    smi = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True).stdout
    (folder / "nvidia-smi.xml").write_bytes(smi)
    rows = []
    for name in options.names or CASES:
        rows.append(run(name, CASES[name], gpus, folder))
        causes = [end["cause"][:300] for end in rows[-1]["ends"]]
        state = "passed" if rows[-1]["passed"] else "FAILED"
        print(name, state, rows[-1]["codes"], causes, flush=True)
        print(*rows[-1]["outputs"], sep="\n", flush=True)
        record = {**host.about(), "nccl": nccl(), "cases": rows}
        results.put(folder, f"preflight-{len(gpus)}gpu", record)
    return 0 if all(row["passed"] for row in rows) else 1
