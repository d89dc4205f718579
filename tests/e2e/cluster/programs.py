"""A program of the control plane: its command line, and how one knows that it is ready."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout

PATIENCE = 120.0
"""Seconds until a program has to be ready: seconds on an idle machine, more on a busy one."""
PAUSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program of the control plane."""

    name: str
    argv: tuple[str | Path, ...]
    ready: str | None = None
    """URL that answers 200 once it is ready; None: nobody waits for it."""


def start(layout: Layout, program: Program) -> None:
    """Start it and return at once."""
    supervise.start(layout, program.name, program.argv)


def wait(layout: Layout, program: Program) -> None:
    """Return when it is ready.

    Raises:
        Problem: it ended, or is not ready in time; the message names its log.
    """
    url = program.ready
    if url is not None:
        context = ssl.create_default_context(cafile=layout.pki / "ca.crt")
        until(layout, program.name, "ready", lambda: answers(url, context))


def answers(url: str, context: ssl.SSLContext) -> bool:
    """Return whether a GET of this URL gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def until(
    layout: Layout, name: str, what: str, probe: Callable[[], bool], patience: float = PATIENCE
) -> None:
    """Return when the probe says yes, asking again and again.

    Raises:
        Problem: the program ended, or the probe says no for ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    log = layout.logs / f"{name}.log"
    while not probe():
        process = supervise.find(layout, name)
        if process is None or not process.alive:
            raise Problem(f"{name} ended before it was {what}; its last words are in {log}")
        if time.monotonic() > deadline:
            raise Problem(f"{name} is not {what} after {patience:.0f} s; see {log}")
        time.sleep(PAUSE)
