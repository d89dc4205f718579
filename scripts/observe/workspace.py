"""The files of a run, `runs/<release>/`, as dataclasses; tolerant of missing and torn files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, TypeVar

from launchers.config.workspace import Workspace
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.stages import attempt_record
from launchers.stages.attempt_record import End
from launchers.state import document, json_text
from launchers.state.contents import is_name
from launchers.state.spans import Span
from scripts.problem import Problem

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Document = Mapping[str, Any]
T = TypeVar("T", bound="DataclassInstance")


class Unreadable(Problem):
    """A mounted workspace that gives an error, such as a stale mount."""


@dataclass(frozen=True, kw_only=True)
class PreflightFinding:
    """A failed check of a rank's preflight."""

    rank: int | None
    pod: str
    node: str
    check: str
    device: str
    """Rank, device or pair at fault; empty: the pod itself."""
    seen: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A folder of `checkpoints/`."""

    step: int
    complete: bool
    bytes: int
    """0 of one that is not complete."""
    saved_at: float | None
    """Unix time."""
    parts: int = 0
    """Ranks whose part is written and not sealed, if nodes write to their own disks first."""
    copied: int = 0
    """Those of them whose part is on the workspace."""


@dataclass(frozen=True, kw_only=True)
class Attempt(Span):
    """One start of the gang."""

    number: int
    resumed: int | None
    """Step of the checkpoint that it began from, 0 without one; None if it never trained."""
    ends: tuple[End, ...] = ()
    failed_checks: tuple[PreflightFinding, ...] = ()
    logs: tuple[str, ...] = ()
    """Names of the ranks' log files."""
    modified: float | None = None

    @property
    def root(self) -> End | None:
        """Return the end of the rank that ended first; None if no rank left a record."""
        return attempt_record.root_of(self.ends)


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Files of a run on its workspace."""

    run: str
    exists: bool
    now: float
    """Unix time by the clock of the host that read the files."""
    progress: Document = field(default_factory=dict)
    plan: Document = field(default_factory=dict)
    inputs: Document = field(default_factory=dict)
    """Digests of the recipe and of the stages' outputs that the checkpoints are made of."""
    row: Row | None = None
    """The newest row of an optimizer step."""
    recent: tuple[Row, ...] = ()
    """The newest rows of the last steps, in the order of steps."""
    evaluations: tuple[Evaluation, ...] = ()
    """Those among the last rows."""
    attempts: tuple[Attempt, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    """In the order of steps."""
    has_export: bool = False
    torn: tuple[str, ...] = ()
    """Names of files that are not whole; the rest is shown."""
    problems: tuple[str, ...] = ()
    """Errors of the file system."""
    known: tuple[str, ...] = ()
    """Names of all runs on the workspace."""
    root: str = ""
    """Folder of the workspace where it was read."""
    heartbeat: float | None = None
    """Unix time at which the launcher that leads the run last touched `run.lock`; None without
    a lock: no launcher leads it, or its host shows none."""

    @property
    def training(self) -> Document:
        """Return the state of training in `progress.json`; empty before the first step."""
        return json_text.part(self.progress, "training")

    @property
    def newest(self) -> Checkpoint | None:
        """Return the complete checkpoint of the highest step."""
        return next((each for each in reversed(self.checkpoints) if each.complete), None)

    @property
    def pending(self) -> Checkpoint | None:
        """Return the checkpoint that is on the nodes' disks and newer than the newest one."""
        oldest = self.newest.step if self.newest else -1
        found = (each for each in reversed(self.checkpoints) if each.parts and not each.complete)
        return next((each for each in found if each.step > oldest), None)


def read_run(root: Path, run: str) -> RunFiles:
    """Read a run of a workspace that is mounted here.

    Raises:
        Problem: the folder is not a workspace.
    """
    check_folder(root)
    return parse_run(document.read(Workspace(root=root, run=run)))


def run_names(root: Path) -> list[str]:
    """Return the sorted names of the runs of a workspace that is mounted here.

    Raises:
        Problem: the folder is not a workspace, or its runs may not be listed.
    """
    check_folder(root)
    state = document.State(Workspace(root=root, run=""))
    found = state.names(root / "runs")
    if state.problems:
        raise Problem(state.problems[0])
    return [name for name in found if is_name(name) and state.is_folder(root / "runs" / name)]


def check_folder(root: Path) -> None:
    """Verify that a workspace that is mounted here is a folder.

    Raises:
        Unreadable: its mount gives an error.
        Problem: it is not.
    """
    try:
        if S_ISDIR(root.stat().st_mode):
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise Unreadable(f"workspace {root} cannot be read: {error.strerror}") from None
    raise Problem(f"{root} is not a folder; give the folder where the workspace is mounted")


def parse_run(found: Document) -> RunFiles:
    """Return the files of a run from the document of `launchers/state/document.py`.

    Raises:
        Problem: it is of another version.
    """
    if found.get("schema") != document.SCHEMA:
        raise Problem(f"the launcher's document of the run is not of schema {document.SCHEMA}")
    recent = tuple(filter(None, map(rows.of, found.get("rows") or ())))
    steps = map(evaluations.of, found.get("evaluations") or ())
    return made(
        RunFiles,
        found,
        row=recent[-1] if recent else None,
        recent=recent,
        evaluations=tuple(filter(None, steps)),
        attempts=tuple(map(_attempt, found.get("attempts") or ())),
        checkpoints=tuple(made(Checkpoint, each) for each in found.get("checkpoints") or ()),
        has_export=bool(found.get("export")),
        torn=tuple(found["torn"]),
        problems=tuple(found["problems"]),
        known=tuple(found["runs"]),
    )


def _attempt(found: Document) -> Attempt:
    return made(
        Attempt,
        found,
        first=rows.of(found["first"] or {}),
        last=rows.of(found["last"] or {}),
        ends=tuple(made(End, each) for each in found["ends"]),
        failed_checks=tuple(made(PreflightFinding, each) for each in found["failed_checks"]),
        logs=tuple(found["logs"]),
    )


def made(kind: type[T], found: Document, **own: Any) -> T:
    """Return a dataclass with its fields of a document; a later launcher may print others, too.

    Raises:
        Problem: it lacks one, as that of an earlier launcher does.
    """
    names = {each.name for each in fields(kind)} & found.keys()
    try:
        return kind(**{name: found[name] for name in names} | own)
    except TypeError as error:
        raise Problem(f"the launcher's document is of another version: {error}") from None


def parse_end(text: str | None) -> End | None:
    """Return the end in a termination message; None if it is torn or something else.

    >>> parse_end('{"code": 80, "rank": 1, "id": "preflight-health"}').id
    'preflight-health'
    >>> parse_end("Traceback (most recent call last):")
    """
    return attempt_record.read_end(json_text.read_object(text)[0] or {})
