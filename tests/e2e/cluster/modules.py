"""Sources of Go modules, which Go keeps: charts, CRDs and rules of other projects."""

import json
import subprocess
from pathlib import Path

from scripts.problem import Problem

SECONDS = 300.0
"""Time that Go has to fetch a module."""


def folder(module: str, within: Path) -> Path:
    """Return the folder of a module.

    ``module`` has its ``@version``, unless the go.mod of ``within`` says it.
    """
    argv = ["go", "mod", "download", "-json", module]
    try:
        done = subprocess.run(argv, cwd=within, capture_output=True, text=True, timeout=SECONDS)
    except FileNotFoundError:
        raise Problem(
            f"Go is not on PATH and is needed to fetch {module}; install Go >= 1.26"
        ) from None
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no error message"]
        raise Problem(f"go could not fetch the module {module}: {lines[-1]}")
    return Path(json.loads(done.stdout)["Dir"])
