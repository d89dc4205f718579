"""Calls of the container engine and of kind."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable

from scripts.problem import Problem
from tests.e2e.cluster.cluster import ENGINES
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.kind import config as kind_config
from tests.e2e.cluster.layout import Layout

PATIENCE = 300.0
"""Seconds until something has to be so; minutes where images are pulled."""


def engine() -> str:
    """Return the container engine.

    Raises:
        Problem: none is installed, or none answers.
    """
    for name in ENGINES:
        found = shutil.which(name)
        if found and subprocess.run([found, "info"], capture_output=True).returncode == 0:
            return name
    text = f"no container engine answers ({', '.join(ENGINES)})"
    raise Problem(f"{text}; start one, or run `megatron-dpo cluster up --backend processes`")


def kind(layout: Layout, *words: str, text: str = "") -> str:
    """Run kind, the checkout's own or the one on PATH; ``text`` is its input.

    Raises:
        Problem: there is none, it is too old, or it failed.
    """
    own = layout.bin / "kind"
    program = str(own) if own.exists() else shutil.which("kind")
    if program is None or kind_config.old(run((program, "version"))):
        oldest = ".".join(map(str, kind_config.OLDEST))
        raise Problem(f"no kind >= {oldest}; run `scripts/tools/go.sh kind` (Go), or install it")
    return run(("env", f"KIND_EXPERIMENTAL_PROVIDER={engine()}", program, *words), text=text)


def until(what: str, probe: Callable[[], bool]) -> None:
    """Return when the probe says yes, asked twice a second.

    Raises:
        Problem: it says no for ``PATIENCE`` seconds.
    """
    deadline = time.monotonic() + PATIENCE
    while not probe():
        if time.monotonic() > deadline:
            raise Problem(
                f"after {PATIENCE:.0f} s it is not so that {what}; look at it, then `down`"
            )
        time.sleep(0.5)
