"""The train stage: torchrun on this node, from its start to the exported checkpoint."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launchers import checkpoint, diagnose, logs
from launchers.argv import Inputs, environment, flatten, program, torchrun, training_flags
from launchers.checkpoint import Checkpoint
from launchers.exits import Exit, LaunchError
from launchers.gang import Bond
from launchers.process import Child
from launchers.recipe import Recipe
from launchers.settings import Settings
from launchers.swift import swift_folder
from launchers.workspace import Workspace

GRACE = 20.0
"""Seconds that torchrun has to end its workers after SIGTERM."""
GRACE_AFTER_LOSS = 3.0
"""The same after a peer was lost: the workers hang in a collective, there is nothing to save."""
ECHO = 5.0
"""Seconds in which the news of a lost peer may come after its collective broke."""
_SIGNAL = re.compile(r"exitcode\s*:\s*-(\d+)")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of the gang."""

    number: int
    resume: Checkpoint | None

    def folder(self, work: Workspace) -> Path:
        """Return where this attempt's logs go."""
        return work.attempts / str(self.number)


def next_attempt(work: Workspace) -> Attempt:
    """Choose the next attempt's number and what it resumes from (rank 0 decides for all).

    The number is the launcher's own: Kueue's preemption does not raise the JobSet's
    ``restart-attempt`` (jobset #1282), and logs keyed on it would be overwritten.
    """
    taken = [int(p.name) for p in work.attempts.glob("*") if p.name.isdecimal()]
    number = max(taken, default=0) + 1
    return Attempt(number=number, resume=checkpoint.newest(work.checkpoints))


def keep_identity(work: Workspace, inputs: Mapping[str, object]) -> None:
    """Refuse to resume a run whose inputs have changed since its checkpoints were made.

    Raises:
        LaunchError: CONFIG naming what differs.
    """
    path = work.home / "inputs.json"
    text = json.dumps(inputs, indent=1, sort_keys=True) + "\n"
    if checkpoint.newest(work.checkpoints) is not None and path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = sorted(k for k in {*before, *inputs} if before.get(k) != inputs.get(k))
        if changed:
            raise LaunchError(
                Exit.CONFIG,
                f"run {work.run} has checkpoints made with another {', '.join(changed)}",
                f"choose another release name, or remove {work.home}",
            )
    work.home.mkdir(parents=True, exist_ok=True)
    checkpoint.replace(path, text)


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
    logs.info("train command", argv=shlex.join(argv))
    logged = _logged(work)
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
        raise _failure(ranks, bond, started=_logged(work) > logged)


def _logged(work: Workspace) -> int:
    """Return the size of the trainer's step log: it grows with the first step."""
    log = work.checkpoints / "logging.jsonl"
    return log.stat().st_size if log.exists() else 0


def _failure(ranks: Path, bond: Bond, *, started: bool) -> LaunchError:
    """Find out why torchrun ended on this node."""
    if bond.loss is not None:
        return bond.loss.error()
    texts = [diagnose.tail(p) for p in sorted(ranks.rglob("stderr.log"))]
    found = diagnose.worst(v for t in texts if (v := diagnose.verdict(t, started=started)))
    if found is not None and not found.cascade:
        return LaunchError(found.code, found.cause, found.remedy)
    if bond.lost.wait(ECHO) and bond.loss is not None:
        return bond.loss.error()
    killed = _SIGNAL.search(diagnose.tail(ranks.with_suffix(".log")))
    if killed is not None:
        return LaunchError(
            Exit.PEER,
            f"a training process was killed by signal {killed.group(1)}",
            "signal 9 is often a lack of host memory: raise resources.limits.memory",
        )
    cause = found.cause if found else "training failed without an exception"
    return LaunchError(Exit.PEER, cause, f"see {ranks}")
