"""A module run by the training Python as some ranks on CPU, with megatron-core's sources."""

import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launchers.preflight.gang_probes import free_port
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import STACK, Stack

STDOUT = "1"
"""torchrun's number for the stream that each rank writes into a file of its own."""


def reports(module: str, *given: str, ranks: int = 2, stack: Stack = STACK) -> list[dict[str, Any]]:
    """Return the objects that the ranks print, each as a line of JSON."""
    lines = said(module, *given, ranks=ranks, stack=stack)
    return [json.loads(line) for line in lines if line.startswith("{")]


def together(module: str, *given: str, ranks: int = 2, code: int = 0, **env: str) -> list[str]:
    """Run a module as ranks without torchrun and megatron-core; return what each has printed."""
    inside = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    inside |= {"CUDA_VISIBLE_DEVICES": "", "MASTER_ADDR": "127.0.0.1"}
    inside |= {"MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks), **env}
    words, pipe = [str(warm.python()), "-m", module, *given], subprocess.PIPE
    started = [
        subprocess.Popen(
            words, cwd=ROOT, env=inside | {"RANK": str(n)}, stdout=pipe, stderr=pipe, text=True
        )
        for n in range(ranks)
    ]
    ends = [rank.communicate() for rank in started]
    assert [rank.returncode for rank in started] == [code] * ranks, ends
    return [out for out, _ in ends]


def held(module: str, *given: str, ranks: int = 2) -> int:
    """Return how many things hold on each rank of a module that ends by ``edge.end()``."""
    lines = said(module, *given, ranks=ranks)
    [held] = {int(line.split()[0]) for line in lines if line.endswith(" hold")}
    assert lines.count(f"{held} hold") == ranks
    return held


def said(module: str, *given: str, ranks: int = 2, stack: Stack = STACK) -> list[str]:
    """Return the lines that the module's ranks printed; all must have ended well."""
    python = str(warm.python(oracle=True, stack=stack))  # of torchrun, and of its ranks
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{stack.oracle}", "CUDA_VISIBLE_DEVICES": ""}
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    torchrun += ["--master-port", str(free_port()), "--redirects", STDOUT]
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, *torchrun, "--log-dir", folder, "-m", module, *given],
            cwd=ROOT,
            env={**env, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": python},
            capture_output=True,
            text=True,
        )
        printed = [path.read_text() for path in sorted(Path(folder).rglob("stdout.log"))]
    assert done.returncode == 0, ("".join(printed) + done.stderr)[-3000:]
    return [line for text in printed for line in text.splitlines()]
