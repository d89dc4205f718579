"""The train stage: torchrun on this node, from its start to the exported checkpoint."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from launchers import diagnose, logs
from launchers.argv import Inputs, environment, flatten, program, torchrun, training_flags
from launchers.attempt import Attempt
from launchers.exits import Exit, LaunchError
from launchers.gang import Bond
from launchers.process import Child
from launchers.recipe import Recipe
from launchers.settings import Settings
from launchers.steps import last_step
from launchers.swift import swift_folder
from launchers.workspace import Workspace

GRACE = 20.0
"""Seconds that torchrun has to end its workers after SIGTERM."""
GRACE_AFTER_LOSS = 3.0
"""The same after a peer was lost: the workers hang in a collective, there is nothing to save."""
ECHO = 5.0
"""Seconds in which the news of a lost peer may come after its collective broke."""
_SIGNAL = re.compile(r"exitcode\s*:\s*-(?!15\b)(\d+)")
"""Of a rank in torchrun's table; -15 is torchrun ending the others."""


def train(
    settings: Settings,
    recipe: Recipe,
    inputs: Inputs,
    work: Workspace,
    attempt: Attempt,
    bond: Bond,
    env: Mapping[str, str],
) -> None:
    """Run torchrun on this node until it ends, a peer is lost, or the pod is stopped.

    Raises:
        LaunchError: why training ended; PEER when another rank ended first.
    """
    place, nproc = settings.place, settings.nproc_per_node
    folder = attempt.folder(work)
    folder.mkdir(parents=True, exist_ok=True)
    ranks = folder / f"node-{place.rank}"
    flags = training_flags(
        recipe,
        inputs,
        output_dir=work.checkpoints,
        resume=attempt.resume,
        on_cpu=settings.gpus_per_node == 0,
    )
    argv = torchrun(
        place,
        nproc=nproc,
        log_dir=ranks,
        python=sys.executable,
        program=[str(program(recipe, swift_folder())), *flatten(flags)],
    )
    resume = attempt.resume.path if attempt.resume else None
    logs.info("train start", attempt=attempt.number, resume=resume, argv=shlex.join(argv))
    logged = last_step(work.checkpoints)
    package = Path(__file__).parent
    child = Child(
        argv, environment(env, place, nproc=nproc, package=package), folder / f"{ranks.name}.log"
    )
    grace = GRACE
    try:
        code = child.wait(bond.lost)
        if code is None:
            grace = GRACE_AFTER_LOSS
    finally:
        child.end(grace)
    if code != 0:
        raise _failure(ranks, bond, started=last_step(work.checkpoints) != logged)


def _failure(ranks: Path, bond: Bond, *, started: bool) -> LaunchError:
    """Find out why torchrun ended on this node."""
    if bond.loss is not None:
        return bond.loss.error()
    killed = _SIGNAL.search(diagnose.tail(ranks.with_suffix(".log")))
    if killed is not None:  # an exception in its log was caught: a raised one exits with 1
        return LaunchError(
            Exit.PEER,
            f"a training process was killed by signal {killed.group(1)}",
            "signal 9 is often a lack of host memory: raise resources.limits.memory",
        )
    texts = [diagnose.tail(p) for p in sorted(ranks.rglob("stderr.log"))]
    found = diagnose.worst(v for t in texts if (v := diagnose.verdict(t, started=started)))
    if found is not None and not found.cascade:
        return LaunchError(found.code, found.cause, found.remedy)
    if bond.lost.wait(ECHO) and bond.loss is not None:
        return bond.loss.error()
    cause = found.cause if found else "training failed without an exception"
    return LaunchError(Exit.PEER, cause, f"see {ranks}")
