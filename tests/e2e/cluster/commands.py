"""Calls of the system's programs."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from scripts.problem import Problem

SHOWN = 100
"""Characters of a command that a message shows."""
LINES = 3
"""Lines of a failed command's own message."""


def run(argv: Sequence[str | Path], *, text: str = "", file: IO[bytes] | None = None) -> str:
    """Run a program and return its output; its input is ``file`` from where it stands, or ``text``.

    Raises:
        Problem: it failed; the message is the end of its own.
    """
    words = [str(word) for word in argv]
    given = None if file else text
    done = subprocess.run(
        words, stdin=file, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shown = textwrap.shorten(" ".join(words), SHOWN)
        said = done.stderr.strip().splitlines()[-LINES:] or [f"it ended with {done.returncode}"]
        raise Problem(f"`{shown}` failed: {'; '.join(said)}")
    return done.stdout
