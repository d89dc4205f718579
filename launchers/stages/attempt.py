"""What rank 0 decides before the gang starts: whether to train, and from which checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launchers.config.settings import Settings
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.gang.protocol import Message
from launchers.stages.export import is_exported
from launchers.storage import checkpoint
from launchers.storage.checkpoint import Checkpoint


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
    path = work.inputs
    text = json.dumps(inputs, indent=1, sort_keys=True) + "\n"
    if checkpoint.newest(work.checkpoints) is not None:
        before = _identity(path)
        changed = sorted(k for k in {*before, *inputs} if before.get(k) != inputs.get(k))
        if changed:
            raise LaunchError(
                Exit.CONFIG,
                f"run {work.run} has checkpoints made with another {', '.join(changed)}",
                f"choose another release name, or remove {work.home}",
            )
    work.home.mkdir(parents=True, exist_ok=True)
    checkpoint.replace(path, text)


def _identity(path: Path) -> dict[str, object]:
    """Read what a run was made from; with checkpoints but without it nothing is sure."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What rank 0 has decided for all ranks."""

    attempt: Attempt
    skip: str
    """Why there is nothing to train; empty when there is."""

    def message(self) -> Message:
        """Spell it for the other ranks."""
        resume = self.attempt.resume
        name = resume.path.name if resume else ""
        return {"attempt": self.attempt.number, "resume": name, "skip": self.skip}


def decide(settings: Settings, work: Workspace, identity: Mapping[str, object]) -> Plan:
    """Decide whether to train, and from which checkpoint.

    Raises:
        LaunchError: CONFIG when there are checkpoints of other inputs.
    """
    if "train" in settings.skips:
        skip = "SKIP_TRAIN=1"
    elif is_exported(work, identity):
        skip = "up to date"
    else:
        skip = ""
        keep_identity(work, identity)
    return Plan(attempt=next_attempt(work), skip=skip)
