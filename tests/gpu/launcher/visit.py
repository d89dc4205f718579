"""The beginning of each measurement through the launcher: its GPUs, runs, model and pairs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.problem import Problem
from tests.gpu import host
from tests.gpu.launcher import run as launch_run
from tests.gpu.launcher.launch import Launch
from tests.gpu.launcher.run import Run


@dataclass(frozen=True, kw_only=True)
class Visit:
    """Runs that can start, on this host."""

    launches: Sequence[Launch]
    runs: Sequence[Run]
    """One for each launch."""
    about: dict[str, Any]
    """Versions and machine."""
    prepared: dict[str, float]
    """Seconds that the model and the pairs took."""


def begin(
    name: str,
    options: argparse.Namespace,
    launches: Callable[[argparse.Namespace], Sequence[Launch]],
    *,
    layers: int,
) -> Visit | None:
    """Render the runs of a measurement and write their model and pairs.

    Args:
        name: of the measurement, for the message.
        options: parsed command line, see ``launch.parser``.
        launches: makes the launches from it.
        layers: of the model; 0 for the tiny one.

    Returns:
        The visit; None if it cannot start, with the reason on stderr.
    """
    about = host.about()
    try:
        if short := launch_run.seen_gpus(options.gpus, about["gpus"]):
            raise ValueError(short)
        wanted = launches(options)
        runs = [launch_run.open_run(each, options.packed, options.results) for each in wanted]
        prepared = launch_run.prepare(options.tokenizer, layers, options.pairs)
    except (Problem, ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    return Visit(launches=wanted, runs=runs, about=about, prepared=prepared)
