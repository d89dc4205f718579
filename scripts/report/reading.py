"""Read the folder of a run (launchers/progress/README.md, "Files of a run")."""

from __future__ import annotations

import difflib
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from launchers.config.workspace import Workspace
from launchers.exits import LaunchError
from launchers.progress import phases
from launchers.stages import attempt_record
from launchers.stages.attempt_record import End
from launchers.storage import checkpoint, marker
from launchers.storage.checkpoint import Checkpoint
from launchers.system import lookup
from scripts import json_text
from scripts.problem import Problem
from scripts.redact import Redactor
from scripts.report import metrics_file
from scripts.report.columns import reduce
from scripts.report.metrics_file import Metrics, Trained
from scripts.report.record import Attempt, Missing, RunRecord

T = TypeVar("T")
PACKING = "packing.json"
CHECKED = ("loss", "grad_norm")
"""Columns of `metrics.jsonl` in which a step without a finite value is an event."""
NOTHING_KNOWN = Redactor()
"""Knows no exact values; the default, as it is immutable."""
_SIGNS = ("progress.json", "metrics.jsonl", "plan.json")
"""A folder with one of these files is a run's."""


class _Files:
    """Reads JSON files; collects what was wrong with them."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.notes: list[str] = []

    def read(self, path: Path) -> Mapping[str, Any]:
        """Return the JSON object of a file; empty without one, noted if it is not one."""
        try:
            document, left_out = json_text.parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self.notes.append(f"{path.name}: not read ({type(error).__name__})")
            return {}
        if not isinstance(document, dict):
            self.notes.append(f"{path.name}: not a JSON object")
            return {}
        if left_out:
            self.notes.append(f"{path.name}: {json_text.NOT_FINITE}")
        found: Mapping[str, Any] = self.redactor.data(document)
        return found


def find(name: str, workspace: Path) -> Workspace:
    """Return the paths of a run.

    Args:
        name: a run of the workspace, or the path of a run's folder.
        workspace: root of the volume.

    Raises:
        Problem: there is no such run, or the storage does not answer.
    """
    try:
        with lookup.within(0.0):  # a person waits
            for folder in (Path(name), workspace / "runs" / name):
                if any(lookup.is_file(folder / sign) for sign in _SIGNS):
                    return Workspace.of(folder.resolve())
            inside = Path(name) if lookup.is_dir(Path(name) / "runs") else workspace
            runs = [each for each, is_dir in lookup.entries(inside / "runs").items() if is_dir]
    except LaunchError as error:
        raise Problem(error.cause) from None
    near = difflib.get_close_matches(name, runs, n=3) or runs[:10]
    known = f"; its runs: {', '.join(near)}" if near else ""
    raise Problem(
        f"no run {name!r} in {inside}{known}; give a run of --workspace, or the folder of a run "
        f"(it holds {', '.join(_SIGNS)})"
    )


def read(work: Workspace, redactor: Redactor = NOTHING_KNOWN) -> RunRecord:
    """Read a run; what is missing or torn is left out and noted, secrets are replaced."""
    files = _Files(redactor)
    notes = files.notes
    metrics = metrics_file.read(work.metrics)
    if metrics.torn:
        notes.append(f"{work.metrics.name}: torn lines left out: {metrics.torn}")
    if metrics.unread:
        notes.append(f"{work.metrics.name}: not read ({metrics.unread})")
    with lookup.within(0.0):  # a person waits
        complete = list(_complete(work, notes))
        exported = _known(partial(marker.read, work.export), work.export, notes)
        attempts = _attempts(work, metrics, files)
    return RunRecord(
        name=work.run,
        place=str(work.home),
        progress=files.read(work.progress),
        plan=files.read(work.plan),
        inputs=files.read(work.inputs),
        features=files.read(complete[0].path / checkpoint.FEATURES) if complete else {},
        export=_manifest(exported),
        checkpoints=sorted(each.step for each in complete),
        attempts=attempts,
        notes=notes,
        **from_metrics(metrics),
    )


def _complete(work: Workspace, notes: list[str]) -> Iterator[Checkpoint]:
    """Yield the complete checkpoints, the newest first; note those that cannot be read."""
    folders = _known(partial(checkpoint.folders, work.checkpoints), work.checkpoints, notes)
    for folder in folders or ():
        found = _known(partial(checkpoint.inspect, folder), folder, notes)
        if isinstance(found, Checkpoint):
            yield found


def _known(ask: Callable[[], T], place: Path, notes: list[str]) -> T | None:
    try:
        return ask()
    except LaunchError as error:
        notes.append(f"{place.name}: not read ({error.cause})")
        return None


def from_metrics(metrics: Metrics) -> dict[str, Any]:
    """Return the fields of a `RunRecord` that come from the steps."""
    last = metrics.last
    counted = [tokens for tokens in metrics.tokens if tokens >= 0]
    return {
        "curves": {
            name: found
            for name, values in metrics.columns.items()
            if (found := reduce(metrics.steps, values)).steps
        },
        "missing": {name: lack for name in CHECKED if (lack := _missing(metrics, name)).steps},
        "evaluations": metrics.evaluations,
        "rows": len(metrics.steps),
        "step": last.step if last else 0,
        "total": last.total if last else 0,
        "world": last.world if last else 0,
        "tokens": sum(counted) if counted else None,
        "medians": _medians(metrics),
        "peak_gib": _peak(metrics),
    }


def _missing(metrics: Metrics, name: str) -> Missing:
    """Return the steps that the trainer logged without a finite value."""
    finite = {True: 0, False: 0}
    count = 0
    for step, value, is_logged in zip(
        metrics.steps, metrics.columns[name], metrics.logged, strict=True
    ):
        if is_logged:
            is_finite = math.isfinite(value)
            finite[is_finite], count = step, count + (not is_finite)
    return Missing(steps=count, last=finite[False], is_newest=finite[False] > finite[True])


def _medians(metrics: Metrics) -> dict[str, float]:
    """Return medians without the first step of each attempt, which compiles its kernels."""
    firsts = {each.first_step for each in metrics.trained.values()}
    usual = [at for at, step in enumerate(metrics.steps) if step not in firsts]
    found: dict[str, float] = {}
    for name in ("seconds", "tokens_per_second_per_gpu", "mfu", "fill"):
        column = metrics.columns[name]
        values = [column[at] for at in usual if math.isfinite(column[at])]
        if values:
            found[name] = statistics.median(values)
    return found


def _peak(metrics: Metrics) -> float | None:
    """Return the largest memory that the GPU's allocator held, in GiB."""
    column = metrics.columns["reserved_gib"]
    return max((value for value in column if math.isfinite(value)), default=None)


def _attempts(work: Workspace, metrics: Metrics, files: _Files) -> list[Attempt]:
    names = _known(partial(lookup.entries, work.attempts), work.attempts, files.notes) or ()
    folders = {int(name): work.attempts / name for name in names if name.isdecimal()}
    kept = metrics.kept()
    return [
        _attempt(number, folders.get(number), metrics, kept.get(number), files)
        for number in sorted({*folders, *metrics.trained})
    ]


def _attempt(
    number: int,
    folder: Path | None,
    metrics: Metrics,
    kept: tuple[float, float] | None,
    files: _Files,
) -> Attempt:
    trained = metrics.trained.get(number, Trained())
    record = attempt_record.AttemptRecord(number=number, resumed=None, saved=0, logged=0)
    names: Sequence[Path] = ()
    if folder:
        ask = partial(attempt_record.read, folder, saved=0, logged=trained.last_step)
        record = _known(ask, folder, files.notes) or record
        names = _known(partial(lookup.matching, folder, "*.json"), folder, files.notes) or ()
    began = [
        when
        for path in names
        if path.name.startswith("phases-")
        and (when := phases.read(path).get("process")) is not None
    ]
    has_trained = trained.first_step > 0
    return Attempt(
        number=number,
        resumed=record.resumed,
        began=min(began, default=None),
        trained_from=trained.trained_from if has_trained else None,
        kept_until=kept[1] if kept else None,
        trained_until=trained.trained_until if has_trained else None,
        first_step=trained.first_step or None,
        last_step=trained.last_step or None,
        kept_seconds=kept[0] if kept else 0.0,
        lost_steps=trained.lost_steps,
        lost_seconds=trained.lost_seconds,
        evaluation_seconds=trained.evaluation_seconds,
        end=_redacted(record.root, files.redactor),
        pods=[files.read(path) for path in names if path.name.startswith("preflight-")],
        packing=files.read(folder / PACKING) if folder else {},
    )


def _manifest(exported: marker.Marker | None) -> dict[str, Any]:
    if exported is None:
        return {}
    files = {
        name: {"size": entry.size, "sha256": entry.sha256}
        for name, entry in exported.manifest.items()
    }
    return {"files": files, "made": dict(exported.made)}


def _redacted(end: End | None, redactor: Redactor) -> End | None:
    if end is None:
        return None
    return replace(end, cause=redactor.text(end.cause), remedy=redactor.text(end.remedy))
