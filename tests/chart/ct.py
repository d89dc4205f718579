"""chart-testing's ct, run so that every word of its tools is kept.

ct waits for a tool before it has read all of the tool's output, and then closes the pipe (seen with
3.14.0: one of some twenty runs misses the last lines). So each tool also writes to a file.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / ".tools" / "cluster" / "bin" / "ct"


@dataclass(frozen=True, kw_only=True)
class Done:
    code: int
    output: str
    """Output of ct itself, and what it printed of its tools' output."""
    tools: str
    """All output of its tools."""


def run(
    words: Sequence[str],
    *,
    checkout: Path,
    tools: Sequence[Path],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
) -> Done:
    """Run ct in a checkout, with `tools` first on PATH, as scripts in an empty or new `folder`."""
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    log.touch()
    for tool in tools:
        script = folder / tool.name
        line = f'{shlex.quote(str(tool))} "$@" 2>&1 | tee --append {shlex.quote(str(log))}'
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
    return Done(
        code=done.returncode, output=done.stdout + done.stderr, tools=log.read_text("utf-8")
    )
