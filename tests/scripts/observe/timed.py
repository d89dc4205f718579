"""Run a verb as a process, and measure the processor's time that it takes."""

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.helm import ROOT


@dataclass(frozen=True, kw_only=True)
class Timed:
    seconds: float
    """Of the processor, user and system."""
    done: subprocess.CompletedProcess[str]


def timed(folder: Path, *words: str) -> Timed:
    """Run `megatron-dpo` with the kubeconfig of a folder.

    The first call compiles the modules, as after an installation; the others find them compiled.
    """
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compiled = str(folder.parent / "compiled")
    own = {"KUBECONFIG": str(folder / "kubeconfig"), "PYTHONPYCACHEPREFIX": compiled}
    command = [sys.executable, "-m", "scripts.cli", *words]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=kept | own)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(seconds=used, done=done)
