"""The files of a run, `runs/<release>/`, as dataclasses; tolerant of missing and torn files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from launchers.config.checkpoint_owner import other_run
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import reader, rows
from launchers.metrics.rows import Row
from launchers.stages import attempt_record
from scripts import json_text
from scripts.control.contents import is_name
from scripts.observe import collect
from scripts.problem import Problem

Document = Mapping[str, Any]


class Unreadable(Problem):
    """A mounted workspace that gives an error, such as a stale mount."""


@dataclass(frozen=True, kw_only=True)
class End(attempt_record.End):
    """The end of one rank: the content of a termination message (`launchers/termination.py`)."""

    stage: str = ""
    step: int | None = None
    remedy: str = ""


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
    """Of the files that its manifest lists; 0 without a manifest."""
    saved_at: float | None
    """Unix time."""
    parts: int = 0
    """Ranks whose part is written and not sealed, if nodes write to their own disks first."""
    copied: int = 0
    """Those of them whose part is on the workspace."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of the gang."""

    number: int
    resumed: int | None
    """Step of the checkpoint that it began from, 0 without one; None if it never trained."""
    first: Row | None = None
    last: Row | None = None
    """Its first and last rows of optimizer steps."""
    lost_steps: int = 0
    """Steps that the next attempt trained again."""
    lost_seconds: float = 0.0
    """From the last kept step to the last step."""
    ends: tuple[End, ...] = ()
    failed_checks: tuple[PreflightFinding, ...] = ()
    logs: tuple[str, ...] = ()
    """Names of the ranks' log files."""
    modified: float | None = None

    @property
    def root(self) -> End | None:
        """Return the end of the rank that ended first; None if no rank left a record."""
        record = attempt_record.AttemptRecord(
            number=self.number, resumed=self.resumed, saved=0, logged=0, ends=self.ends
        )
        found = record.root
        return found if isinstance(found, End) else None


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
    return parse_run(collect.collect(root, run))


def run_names(root: Path) -> list[str]:
    """Return the sorted names of the runs of a workspace that is mounted here.

    Raises:
        Problem: the folder is not a workspace, or its runs may not be listed.
    """
    check_folder(root)
    problems: list[str] = []
    found = collect.names(root / "runs", problems)
    if problems:
        raise Problem(problems[0])
    folders = (root / "runs" / name for name in found if is_name(name))
    return [folder.name for folder in folders if collect.holds(folder.is_dir)]


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


def parse_run(document: Document) -> RunFiles:
    """Return the files of a run from the document of `collect.py`.

    Raises:
        Problem: it is of another version.
    """
    if document.get("version") != collect.VERSION:
        raise Problem(f"the reader's document is not version {collect.VERSION}")
    files: Document = document.get("files") or {}
    torn: list[str] = []
    problems = list(document.get("problems") or ())
    metrics: Document = document.get("metrics") or {}
    tail = list(metrics.get("tail") or [])
    recent = tuple(reader.newest(tail, Row))
    steps = reader.newest(tail, Evaluation)
    if tail and reader.parse(tail[-1]) is None:
        torn.append("metrics.jsonl")
    inputs = _object("inputs.json", files, torn, problems)
    saved = sorted(_checkpoints(document, inputs), key=lambda each: each.step)
    return RunFiles(
        run=str(document["run"]),
        exists=bool(document.get("exists")),
        now=float(document["now"]),
        progress=_progress(_object("progress.json", files, torn, problems), torn),
        plan=_object("plan.json", files, torn, problems),
        inputs=inputs,
        row=recent[-1] if recent else None,
        recent=recent,
        evaluations=tuple(steps),
        attempts=tuple(_attempts(document.get("attempts") or [], metrics.get("attempts") or {})),
        checkpoints=tuple(saved),
        has_export=bool(document.get("export")),
        torn=tuple(torn),
        problems=tuple(problems),
        known=tuple(document.get("runs") or ()),
        root=str(document.get("root") or ""),
        heartbeat=document.get("heartbeat"),
    )


def parse_end(text: str | None) -> End | None:
    """Return the end in a termination message or record; None if it is torn or something else.

    >>> parse_end('{"code": 80, "rank": 1, "id": "preflight-health"}').id
    'preflight-health'
    >>> parse_end("Traceback (most recent call last):")
    """
    fields = _json(text)
    if fields is None or not isinstance(fields.get("code"), int):
        return None
    return End(
        code=fields["code"],
        rank=_whole(fields.get("rank")),
        failure_class=str(fields.get("class") or "unknown"),
        id=str(fields.get("id") or ""),
        cause=str(fields.get("cause") or ""),
        remedy=str(fields.get("remedy") or ""),
        stage=str(fields.get("stage") or ""),
        step=_whole(fields.get("step")),
    )


def _json(text: str | None) -> Document | None:
    return _read(text)[0]


def _read(text: str | None) -> tuple[Document | None, int]:
    """Return the object of a text, and how many of its numbers were not finite."""
    try:
        found, left_out = json_text.parse(text or "")
    except (ValueError, RecursionError):
        return None, 0
    return (found, left_out) if isinstance(found, dict) else (None, 0)


def _object(name: str, files: Document, torn: list[str], problems: list[str]) -> Document:
    """Return the object of a JSON file; note its name if it is torn or has no finite numbers."""
    text = files.get(name)
    found, left_out = _read(text)
    if text is not None and found is None:
        torn.append(name)
    if left_out:
        problems.append(f"{name}: {json_text.NOT_FINITE}")
    return found or {}


_PARTS: Mapping[str, Any] = {"phases": (int, float), "stages": Mapping, "training": object}
"""Objects of progress.json, and the kind of their values."""


def _progress(found: Document, torn: list[str]) -> Document:
    """Return progress.json without what has another type than the launcher writes; note it.

    A number that was not finite is null here, and no reason for a note about the type.
    """
    kept = dict(found)
    for name in _PARTS.keys() & found.keys():
        part, kinds = found[name], _PARTS[name]
        given = part if isinstance(part, Mapping) else {}
        kept[name] = {key: each for key, each in given.items() if isinstance(each, kinds)}
        if part is not given or any(given[key] is not None for key in given.keys() - kept[name]):
            torn.append("progress.json")
    return kept


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _row(fields: Document | None) -> Row | None:
    return rows.of(fields) if fields else None


def _attempts(found: Iterable[Document], spans: Document) -> Iterator[Attempt]:
    for each in found:
        span: Document = spans.get(str(each["number"])) or {}
        last, kept = _row(span.get("last")), _row(span.get("kept"))
        first = _row(span.get("first"))
        begun = first.time - first.seconds if first else 0.0
        # Without a kept row the next attempt began from the same checkpoint: all is lost.
        since = kept.time if kept else begun
        is_followed = span.get("next") is not None
        before = kept.step if kept else (each.get("resume") or 0)
        yield Attempt(
            number=each["number"],
            resumed=each.get("resume"),
            first=first,
            last=last,
            lost_steps=max(0, last.step - before) if last and is_followed else 0,
            lost_seconds=max(0.0, last.time - since) if last and is_followed else 0.0,
            ends=tuple(end for text in each["terminations"] if (end := parse_end(text))),
            failed_checks=tuple(_failed_checks(each["preflights"])),
            logs=tuple(name for name in each["files"] if name.endswith(".log")),
            modified=each.get("modified"),
        )


def _failed_checks(texts: Iterable[str | None]) -> Iterator[PreflightFinding]:
    for text in texts:
        report = _json(text) or {}
        findings = report.get("findings")
        for each in findings if isinstance(findings, list) else ():
            if isinstance(each, Mapping) and each.get("state") == "failed":
                yield PreflightFinding(
                    rank=_whole(report.get("rank")),
                    pod=str(report.get("pod") or ""),
                    node=str(report.get("node") or ""),
                    check=str(each.get("check") or ""),
                    device=str(each.get("who") or ""),
                    seen=str(each.get("seen") or ""),
                    remedy=str(each.get("remedy") or ""),
                )


def _checkpoints(document: Document, inputs: Mapping[str, Any]) -> Iterator[Checkpoint]:
    """Yield the checkpoints; complete as `launchers/storage/checkpoint.py` decides it."""
    tried = document.get("attempts") or []
    runs = {str(document["run"]), *(str(each.get("run") or "") for each in tried)}
    for each in document.get("checkpoints") or []:
        step = each["name"].removeprefix("checkpoint-")
        if not step.isdecimal():
            continue
        manifest, sizes = each["manifest"], each["sizes"]
        parts, copied = each.get("copies") or (0, 0)
        listed = manifest.get("files") or {}
        whole = bool(listed) and listed == sizes and manifest.get("step") == int(step)
        refused = each.get("is_damaged") or other_run(manifest, inputs, runs)
        yield Checkpoint(
            step=int(step),
            complete=whole and not refused,
            bytes=sum(sizes.values()),
            saved_at=each.get("modified"),
            parts=parts,
            copied=copied,
        )
