"""The container engine, and calls of kind with it."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable

from scripts.problem import Problem
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import Layout

ENGINES = ("docker", "podman")
OLDEST_KIND = (0, 30)
"""First version of kind whose node images run a tested Kubernetes."""
WAIT_SECONDS = 300.0
"""Time limit of ``wait_until``: images may be pulled meanwhile."""


def find_engine() -> str | None:
    """Return the first container engine that answers, or None."""
    for name in ENGINES:
        program = shutil.which(name)
        if program is None:
            continue
        done = subprocess.run([program, "info"], capture_output=True, timeout=20, check=False)
        if done.returncode == 0:
            return name
    return None


def engine() -> str:
    """Return the container engine."""
    name = find_engine()
    if name is None:
        raise Problem(
            f"no container engine answers ({', '.join(ENGINES)});"
            " start one, or run `make cluster BACKEND=processes`"
        )
    return name


def kind(layout: Layout, *words: str, text: str = "") -> str:
    """Run kind, the built one or the one on PATH, with ``text`` as stdin."""
    built = layout.bin / "kind"
    program = str(built) if built.exists() else shutil.which("kind")
    if program is None or too_old(run((program, "version"))):
        oldest = ".".join(map(str, OLDEST_KIND))
        raise Problem(f"kind >= {oldest} not found; run `scripts/tools/go.sh kind`, or install it")
    return run(("env", f"KIND_EXPERIMENTAL_PROVIDER={engine()}", program, *words), text=text)


def too_old(text: str) -> bool:
    """Return whether the output of `kind version` names a version before ``OLDEST_KIND``.

    >>> too_old("kind v0.31.0 go1.26.8 linux/amd64"), too_old("kind v0.29.0 go1.24 linux/amd64")
    (False, True)
    """
    found = re.match(r"kind v(\d+)\.(\d+)\.", text)
    return found is None or (int(found[1]), int(found[2])) < OLDEST_KIND


def wait_until(failure: str, probe: Callable[[], bool]) -> None:
    """Poll twice a second until the probe returns True; ``failure`` is for the message."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not probe():
        if time.monotonic() > deadline:
            raise Problem(f"timeout after {WAIT_SECONDS:.0f} s: {failure}")
        time.sleep(0.5)
