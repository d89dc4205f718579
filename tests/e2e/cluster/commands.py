"""Run programs of this machine to completion."""

import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from scripts.problem import Problem

SHOWN_CHARACTERS = 100
"""Length of the command in an error message."""
SHOWN_LINES = 3
"""Lines of the failed command's stderr in an error message."""


def run(argv: Sequence[str | Path], *, text: str = "", file: IO[bytes] | None = None) -> str:
    """Run a program and return its stdout; stdin is ``file`` from its position, or ``text``."""
    words = [str(word) for word in argv]
    stdin_text = None if file else text
    done = subprocess.run(
        words, stdin=file, input=stdin_text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shown = textwrap.shorten(" ".join(words), SHOWN_CHARACTERS)
        lines = done.stderr.strip().splitlines()[-SHOWN_LINES:]
        cause = "; ".join(lines or [f"exit status {done.returncode}"])
        raise Problem(f"`{shown}` failed: {cause}")
    return done.stdout
