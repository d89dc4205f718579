"""Record of an attempt for the next one: its first step, and why each rank ended.

``attempts/<n>/start.json`` is written by rank 0 when its gang starts to train, and
``attempts/<n>/termination-<rank>.json``, with the content of the termination message, by each rank
that ends with an error. A rank that is killed leaves no record.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers import logs, termination
from launchers.config.workspace import Workspace
from launchers.exits import FREE, USER, Exit, LaunchError
from launchers.hang import workspace_watch
from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.metrics.trainer_log import last_step
from launchers.storage import checkpoint, run_lease
from launchers.system import lookup
from launchers.system.atomic_file import read_object, replace
from launchers.system.process import Stopped

PEER_ENDED = ("peer-ended", "ended-for-peer", "cascade")
"""Ids of ends that name no cause of their own."""


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of one rank: its exit code and cause."""

    rank: int | None
    code: int
    failure_class: str
    id: str
    cause: str
    remedy: str = ""
    stage: str = ""
    step: int | None = None
    """The last one in the trainer's log."""


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """One past attempt."""

    number: int
    resumed: int | None
    """Step of the checkpoint that it began from, 0 without one; None if it never trained."""
    saved: int
    """Step of the newest complete checkpoint after its end; 0 without one."""
    logged: int
    """Last step in ``metrics.jsonl``; the step that it began from if it completed none."""
    ends: tuple[End, ...] = ()

    @property
    def root(self) -> End | None:
        """Return the end that caused the others."""
        return root_of(self.ends)


def root_of(ends: Iterable[End]) -> End | None:
    """Return the end of the rank that ended first, by its cause; None if no rank left one."""

    def order(end: End) -> tuple[bool, bool, bool, int]:
        is_cascade = end.id in PEER_ENDED
        return end.code not in USER, is_cascade, end.code in FREE, end.rank or 0

    return min(ends, key=order, default=None)


def begin(folder: Path, resume: checkpoint.Checkpoint | None) -> None:
    """Note on rank 0 that an attempt starts to train."""
    run_lease.check()
    folder.mkdir(parents=True, exist_ok=True)
    noted = {"resume": resume.step if resume else 0, "run": folder.parent.parent.name}
    replace(folder / checkpoint.START, json.dumps(noted) + "\n")


def end(work: Workspace, folder: Path, rank: int, error: LaunchError) -> None:
    """Note why a rank ends; a full disk must not hide the reason, so an error is only logged."""
    workspace_watch.note(error)
    found = termination.from_error(
        error, stage=error.stage or "train", rank=rank, step=last_step(work.checkpoints)
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as broken:
        logs.warning("attempt record not written", path=folder, cause=broken)
        return
    termination.write(folder / f"termination-{rank}.json", found)


@contextmanager
def recording(work: Workspace, folder: Path, rank: int) -> Iterator[None]:
    """Note why the block ends, if it ends with an error."""
    try:
        yield
    except BaseException as error:
        end(work, folder, rank, _expected(error))
        raise


def _expected(error: BaseException) -> LaunchError:
    if isinstance(error, LaunchError):
        return error
    if isinstance(error, Stopped):
        return LaunchError(Exit.TERMINATED, f"stopped by {error}", "", id="attempt-stopped")
    return LaunchError(Exit.PEER, repr(error), "check the log", id="attempt-unexpected")


def history(work: Workspace) -> list[AttemptRecord]:
    """Read the past attempts of a run, the oldest first."""
    names = (name for name in lookup.entries(work.attempts) if name.isdecimal())
    folders = {int(name): work.attempts / name for name in names}
    newest = checkpoint.newest(work.checkpoints)
    saved, logged = newest.step if newest else 0, _logged(work.metrics)
    found: list[AttemptRecord] = []
    for number in sorted(folders, reverse=True):
        record = read(folders[number], saved=saved, logged=logged.get(number, 0))
        found.insert(0, record)
        saved = saved if record.resumed is None else record.resumed
    return found


def read(folder: Path, *, saved: int, logged: int) -> AttemptRecord:
    """Read one attempt.

    After its end ``saved`` is the newest complete step, ``logged`` the last of the metrics.
    """
    resumed = whole(read_object(folder / checkpoint.START).get("resume"))
    return AttemptRecord(
        number=int(folder.name),
        resumed=resumed,
        saved=saved,
        logged=max(logged, resumed or 0),
        ends=tuple(_ends(folder)),
    )


def _logged(metrics: Path) -> dict[int, int]:
    """Return the last step of each attempt in ``metrics.jsonl``."""

    def read() -> dict[int, int]:
        last: dict[int, int] = {}
        with metrics.open(encoding="utf-8", errors="replace") as handle:
            for row in reader.of_kind(handle, Row):
                last[row.attempt] = max(last.get(row.attempt, 0), row.step)
        return last

    return lookup.certain(read, metrics) or {}


def _ends(folder: Path) -> Iterator[End]:
    for path in lookup.matching(folder, "termination-*.json"):
        if (found := read_end(read_object(path))) is not None:
            yield found


def read_end(fields: Mapping[str, Any]) -> End | None:
    """Return the end in a termination message or record (``termination.py``); None without one."""
    if not isinstance(fields.get("code"), int):
        return None
    return End(
        rank=whole(fields.get("rank")),
        code=fields["code"],
        failure_class=str(fields.get("class") or "unknown"),
        id=str(fields.get("id") or ""),
        cause=str(fields.get("cause") or ""),
        remedy=str(fields.get("remedy") or ""),
        stage=str(fields.get("stage") or ""),
        step=whole(fields.get("step")),
    )


def whole(value: object) -> int | None:
    """Return a whole number of a JSON document; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
