"""chart-testing's ct, run so that every word of its tools is kept.

ct waits for a tool before it has read all of the tool's output, and then closes the pipe (seen with
3.14.0: one of some twenty runs misses the last lines). So each tool also writes to a file.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / ".tools" / "cluster" / "bin" / "ct"


def run(
    words: Sequence[str],
    *,
    checkout: Path,
    tools: Sequence[Path],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
) -> tuple[int, str]:
    """Run ct in a checkout, with `tools` first on PATH, and return its code and what was said.

    The text is ct's own, followed by what its tools said. `folder` is empty or missing, and kept.
    """
    folder.mkdir(exist_ok=True)
    said = folder / "said"
    said.touch()
    for tool in tools:
        script = folder / tool.name
        line = f'{shlex.quote(str(tool))} "$@" 2>&1 | tee --append {shlex.quote(str(said))}'
        script.write_text(f"#!/bin/bash\nset -o pipefail\n{line}\n", encoding="utf-8")
        script.chmod(0o755)
    path = os.pathsep.join([str(folder), env["PATH"]])
    done = subprocess.run(
        [PROGRAM, *words, "--config=ct.yaml"],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=checkout,
        env={**env, "PATH": path},
    )
    return done.returncode, done.stdout + done.stderr + said.read_text(encoding="utf-8")
