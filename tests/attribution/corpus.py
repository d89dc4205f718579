"""Messages of failed processes with their class and exit code.

``corpus/<class>.yaml``, and parts that were collected at once: ``corpus/parts/<part>.yaml``.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.exits import CLASSES, USER, Exit, FailureClass
from launchers.stages.git import GitError
from launchers.system.failures import Verdict
from launchers.system.training_end import attribute
from launchers.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "corpus"
PARTS = ("development", "held out", "later", "audit", "fresh", "second", "field")
HELD_OUT = 3
"""One message of so many, chosen by digest, is held out: no pattern was written for it."""
AGENT = "Root Cause (first observed failure):\n[0]:\n  exitcode  : {} (pid: 9)\n"
"""torchrun's table of failures (``torch/distributed/elastic/multiprocessing/errors``)."""
_KEYS = frozenset(
    {
        "code",
        "source",
        "log",
        "second",
        "agent",
        "oom_kills",
        "started",
        "cascade",
        "git",
        "part",
        "id",
    }
)


@dataclass(frozen=True, kw_only=True)
class Case:
    failure_class: FailureClass
    code: Exit
    source: str
    """Address of an issue, path of an installed source, or program and place."""
    log: str
    """End of a rank's log, or git's output."""
    second: str
    """End of another rank's log."""
    agent: str
    """The rank's exit code in torchrun's table, or torchrun's own last words; empty without."""
    oom_kills: int | None
    started: bool
    """Whether a training step was completed."""
    cascade: bool
    """Whether a peer may have the cause."""
    git: bool
    id: str
    """Of the rule, where class and code do not tell it from others."""
    collected: str
    """Its part of the corpus, if it was collected after the patterns had been written."""

    @property
    def name(self) -> str:
        """Return class, source and the first line, for reports."""
        return f"{self.failure_class}: {self.source}: {self.log[:100]!r} {self.agent}"

    @property
    def part(self) -> str:
        if self.collected:
            return self.collected
        text = f"{self.log}\0{self.second}\0{self.agent}\0{self.started}"
        chosen = hashlib.sha256(text.encode()).digest()[0] % HELD_OUT == 0
        return "held out" if chosen else "development"

    def judge(self) -> tuple[FailureClass, Exit, bool, str]:
        """Return the class, exit code, cascade and rule's id that the launcher finds."""
        if self.git:
            error = GitError(self.log).meaning()
            return error.failure_class, error.code, False, error.id
        logs = [self.log, *([self.second] if self.second else [])]
        is_code = self.agent.lstrip("-").isdigit()
        agent = AGENT.format(self.agent) if is_code else self.agent
        found = attribute(logs, agent, started=self.started, oom_kills=self.oom_kills)
        return _of(found)


def _of(found: Verdict | None) -> tuple[FailureClass, Exit, bool, str]:
    if found is None:
        return CLASSES[Exit.PEER], Exit.PEER, False, ""
    return found.failure_class, found.code, found.cascade, found.id


@dataclass(frozen=True, kw_only=True)
class Judged:
    case: Case
    failure_class: FailureClass
    code: Exit
    cascade: bool
    id: str = ""

    @property
    def is_right(self) -> bool:
        expected = (self.case.failure_class, self.case.code, self.case.cascade)
        is_id = self.case.id in ("", self.id)
        return is_id and (self.failure_class, self.code, self.cascade) == expected

    @property
    def restarts_user_error(self) -> bool:
        return self.case.code in USER and self.code not in USER

    @property
    def ends_for_good(self) -> bool:
        """Return whether an error that a restart may cure would end the run."""
        return self.case.code not in USER and self.code in USER


def load() -> list[Case]:
    """Read the corpus."""
    return [_case(*found) for found in _entries()]


def _entries() -> Iterator[tuple[FailureClass, Mapping[str, Any], str]]:
    """Yield class, entry and part; without a part the entry may name it."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for entry in read_yaml(path):
            yield FailureClass(path.stem), entry, ""
    for path in sorted(FOLDER.glob("parts/*.yaml")):
        classes = read_yaml(path)
        for name, entries in classes.items():
            yield from ((FailureClass(name), entry, path.stem) for entry in entries)


def _case(failure_class: FailureClass, entry: Mapping[str, Any], part: str) -> Case:
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{failure_class}.yaml: {', '.join(sorted(unknown))}")
    return Case(
        failure_class=failure_class,
        code=Exit(entry["code"]),
        source=entry["source"],
        log=entry["log"],
        second=entry.get("second", ""),
        agent=str(entry.get("agent", "")),
        oom_kills=entry.get("oom_kills"),
        started=entry.get("started", False),
        cascade=entry.get("cascade", False),
        git=entry.get("git", False),
        id=entry.get("id", ""),
        collected=part or entry.get("part", ""),
    )


def judge(cases: list[Case]) -> Iterator[Judged]:
    for case in cases:
        failure_class, code, cascade, id = case.judge()
        yield Judged(case=case, failure_class=failure_class, code=code, cascade=cascade, id=id)
