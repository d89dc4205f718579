"""Read the folder of a run (launchers/progress/README.md, "Files of a run")."""

import difflib
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from launchers.config.workspace import Workspace
from launchers.exits import LaunchError
from launchers.progress import phases
from launchers.progress.training import PACKING
from launchers.stages.attempt_record import End, root_of
from launchers.state.document import State
from launchers.storage import checkpoint, marker
from launchers.system import lookup
from scripts.problem import Problem
from scripts.redact import Redactor
from scripts.report import metrics_file
from scripts.report.columns import reduce
from scripts.report.metrics_file import Metrics, Trained
from scripts.report.record import Attempt, Missing, RunRecord

CHECKED = ("loss", "grad_norm")
"""Columns of `metrics.jsonl` in which a step without a finite value is an event."""
NOTHING_KNOWN = Redactor()
"""Knows no exact values; the default, as it is immutable."""
_SIGNS = ("progress.json", "metrics.jsonl", "plan.json")
"""A folder with one of these files is a run's."""


class _Redacted(State):
    """Reads a run without its secrets."""

    def __init__(self, work: Workspace, redactor: Redactor) -> None:
        super().__init__(work)
        self.redactor = redactor

    def object(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = self.redactor.data(super().object(path))
        return found


def find(name: str, workspace: Path) -> Workspace:
    """Return the paths of a run.

    ``name`` is that of a run of the workspace, or the path of a run's folder.

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
    state = _Redacted(work, redactor)
    metrics = metrics_file.read(work.metrics)
    notes = [f"{work.metrics.name}: torn lines left out: {metrics.torn}"] if metrics.torn else []
    if metrics.unread:
        notes.append(f"{work.metrics.name}: not read ({metrics.unread})")
    steps = [each["step"] for each in state.checkpoints() if each["complete"]]
    newest = work.checkpoints / f"checkpoint-{max(steps, default=0)}"
    record = RunRecord(
        name=work.run,
        place=str(work.home),
        progress=state.object(work.progress),
        plan=state.object(work.plan),
        inputs=state.object(work.inputs),
        features=state.object(newest / checkpoint.FEATURES) if steps else {},
        export=_manifest(work.export, state.problems),
        export_test=state.object(work.export_test),
        benchmarks=state.object(work.benchmarks),
        checkpoints=steps,
        attempts=_attempts(state, metrics),
        pairs=state.object(work.pairs / "summary.json"),
        **from_metrics(metrics),
    )
    notes += [f"{name}: not whole, left out" for name in state.torn]
    others = [each for each in state.problems if not any(name in each for name in state.torn)]
    return replace(record, notes=[*notes, *others, *state.notes])


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
        "unread": metrics.unread,
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


def _attempts(state: _Redacted, metrics: Metrics) -> list[Attempt]:
    tried = {each["number"]: each for each in state.attempts()}
    kept = metrics.kept()
    return [
        _attempt(
            state,
            state.work.attempts / str(number),
            tried.get(number, {}),
            metrics.trained.get(number, Trained()),
            kept.get(number),
        )
        for number in sorted({*tried, *metrics.trained})
    ]


def _attempt(
    state: _Redacted,
    folder: Path,
    tried: Mapping[str, Any],
    trained: Trained,
    kept: tuple[float, float] | None,
) -> Attempt:
    names = state.names(folder)
    began = [
        when
        for name in names
        if name.startswith("phases-")
        and (when := phases.read(folder / name).get("process")) is not None
    ]
    end = root_of(End(**each) for each in tried.get("ends", ()))
    has_trained = trained.first_step > 0
    return Attempt(
        number=int(folder.name),
        resumed=tried.get("resumed"),
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
        end=_redacted(end, state.redactor),
        pods=[state.object(folder / name) for name in names if name.startswith("preflight-")],
        packing=state.object(folder / PACKING),
    )


def _manifest(export: Path, problems: list[str]) -> dict[str, Any]:
    """Return the marker of an export; empty without one, and noted if it cannot be read."""
    exported = None
    try:
        with lookup.within(0.0):  # a person waits
            exported = marker.read(export)
    except LaunchError as error:
        problems.append(f"{export.name}: not read ({error.cause})")
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
