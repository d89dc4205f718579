"""Ends of the runs that hold quota, by their own files and objects: a waiting run starts then."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.doctor.api import Api, Object
from scripts.observe.cluster import Snapshot, is_true, objects_of
from scripts.observe.concurrent import call_each
from scripts.observe.source import read_files
from scripts.observe.view import View, unix_time
from scripts.observe.ways import Source
from scripts.problem import Problem

RUNS = 8
"""Runs whose files are read at most; those without a time limit first."""
KEPT_SECONDS = 60.0
"""Time for which an estimate is used again: `--watch` reads a run every few seconds."""


@dataclass(kw_only=True)
class Ahead:
    """Reads the ends of the runs that hold quota in the namespace of a waiting run."""

    workspace: Path | None = None
    source: Source = Source.AUTO
    _read_at: float | None = field(init=False, default=None)
    _found: dict[str, View] = field(init=False, default_factory=dict)

    def add(self, api: Api, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with these ends; those that cannot be read lack."""
        if self._read_at is None or time.monotonic() > self._read_at + KEPT_SECONDS:
            views = {
                str(each["metadata"].get("uid")): View(objects_of(api, _run_of(each)))
                for each in _holders(snapshot)
            }
            read = call_each(lambda view: self._with_files(api, view), views.values())
            self._found, self._read_at = dict(zip(views, read, strict=True)), time.monotonic()
        left, deadlines = ends(self._found, snapshot.now)
        return replace(snapshot, left=left, deadlines=deadlines)

    def _with_files(self, api: Api, view: View) -> View:
        try:
            reading = read_files(api, view, self.workspace, self.source, reader=False)
        except (Problem, OSError):  # its end is not known, which the forecast says
            return view
        return View(view.snapshot, reading.files)


def ends(views: Mapping[str, View], now: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return ``left`` and ``deadlines`` of a snapshot, from runs by the uid of their Workload."""
    left = {uid: _left(view, now) for uid, view in views.items()}
    deadlines = {uid: _deadline(view, now) for uid, view in views.items()}
    return (
        {uid: each for uid, each in left.items() if each is not None},
        {uid: each for uid, each in deadlines.items() if each is not None},
    )


def _left(view: View, now: float) -> float | None:
    """Return the seconds to the last step of a run that trains; None if they are not known."""
    files = view.files
    if files is None or files.row is None or files.progress.get("state") != "running":
        return None
    eta = files.training.get("eta_seconds")
    # The pods' clock may differ from the server's: only the age of the step is taken from it.
    age = max(0.0, files.now - files.row.time) + max(0.0, now - view.now)
    return max(0.0, float(eta) - age) if isinstance(eta, int | float) else None


def _deadline(view: View, now: float) -> float | None:
    """Return the seconds that `jobset.activeDeadlineSeconds` leaves a run; None without one."""
    for job in view.snapshot.jobs:
        began = unix_time((job.get("status") or {}).get("startTime"))
        limit = (job.get("spec") or {}).get("activeDeadlineSeconds")
        if began and limit:
            return max(0.0, began + float(limit) - now)
    return None


def _holders(snapshot: Snapshot) -> list[Object]:
    """Return the Workloads of JobSets in the namespace that hold quota, the unlimited first."""
    found = [
        each
        for each in snapshot.workloads
        if (each.get("status") or {}).get("admission")
        and not is_true(each, "Finished")
        and each["metadata"].get("namespace") == snapshot.namespace
        and _run_of(each)
    ]
    return sorted(found, key=_is_limited)[:RUNS]


def _is_limited(workload: Object) -> bool:
    return bool((workload.get("spec") or {}).get("maximumExecutionTimeSeconds"))


def _run_of(workload: Object) -> str:
    owners = workload["metadata"].get("ownerReferences") or []
    return next((str(each["name"]) for each in owners if each["kind"] == "JobSet"), "")
