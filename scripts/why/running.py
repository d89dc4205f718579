"""States of a gang whose pods run, and of one between two attempts."""

import re
from collections.abc import Mapping
from typing import Any

from launchers.gang.barrier import format_ranks
from scripts.doctor.api import Object
from scripts.manifest import GANG
from scripts.observe.cluster import JOB_LABEL, condition
from scripts.observe.view import View, unix_time
from scripts.plan.units import time_text
from scripts.why.admission import STARTED_SECONDS
from scripts.why.words import Condition, Facts, Template, after, clean, lasting, who

STALL_STEPS = 10
"""Usual steps without a new one after which a run counts as stalled ..."""
STALL_SECONDS = 600.0
"""... but not earlier than this: an evaluation or a save may lie between two steps."""
SEE = "see `kubectl get jobs,pods -n {namespace}`"
SOON = Template(f"Wait: JobSet and kubelets create the pods within seconds; if it lasts, {SEE}.")
LATE = Template(
    "JobSet creates the pods within seconds, and there are none{lasting}: the administrator finds "
    f"in the log of its controller why; {SEE}."
)
TRAIN = "train"
HELD = re.compile(r" run held code=(?P<code>\d+) minutes=(?P<minutes>\S+)")
"""The line of ``launchers/stop/hold.py``."""
RETRY = re.compile(r" retry .*failures=(?P<count>\d+) .*cause=\"?(?P<cause>[^\"]*)\"?\s*$")
"""The last line of rank 0 while it waits to try again (``launchers/system/retry.py``)."""


def _is_live(view: View) -> bool:
    """Return whether all ranks run and none has ended."""
    return view.is_running and not view.terminal and not any(rank.end for rank in view.ranks)


def _progress(view: View) -> Mapping[str, Any]:
    """Return progress.json of this start; empty if it is of an earlier one, or not readable.

    Rank 0 rewrites it when it starts, so an older file is of an earlier attempt.
    """
    progress = view.files.progress if view.files else {}
    began = [rank.started_at for rank in view.ranks if rank.number == 0 and rank.started_at]
    skew = view.files.now - view.now if view.files else 0.0
    updated = progress.get("updated")
    is_old = began and isinstance(updated, int | float) and updated - skew < began[0] - 1.0
    return {} if is_old or progress.get("state") != "running" else progress


def _ranks_missing(view: View) -> Facts | None:
    if view.joined is None or not view.ranks or view.terminal:
        return None
    missing = [number for number in range(view.nodes) if number not in view.joined]
    if not missing or _progress(view).get("stage", TRAIN) != TRAIN:
        return None
    pods = {rank.number: rank for rank in view.ranks}
    details = [
        f"{pods[number].name} is {pods[number].phase}"
        if number in pods
        else f"rank {number} has no pod"
        for number in missing
    ]
    return {
        "missing": format_ranks(missing),
        "nodes": view.nodes,
        "detail": ": " + "; ".join(details[:4]) if details else "",
        "first": missing[0],
    }


def _held(view: View) -> Facts | None:
    """Match a gang that `debug.holdMinutes` keeps after its end, by the last line of rank 0."""
    found = HELD.search(view.snapshot.log)
    if not found or not view.ranks or view.terminal or view.is_suspended:
        return None
    return {**found.groupdict(), "pod": view.ranks[0].pod}


def _restarting(view: View) -> Facts | None:
    found = condition(view.jobset, "RestartingJobSet")
    is_old_crd = view.restarts[0] > 0 and not view.ranks and not view.is_suspended
    if view.terminal or not (found.get("status") == "True" or is_old_crd):
        return None
    return {"cause": after(str(found.get("message") or ""))}


def _usual(view: View) -> float | None:
    found = view.files.training.get("step_seconds") if view.files else None
    return float(found) if isinstance(found, int | float) else None


def _stalled(view: View) -> Facts | None:
    usual, row = _usual(view), view.files.row if view.files else None
    stages = _progress(view).get("stages") or {}
    if not _is_live(view) or not usual or row is None or view.files is None:
        return None
    if (stages.get(TRAIN) or {}).get("state") != "running" or not _steps_now(view):
        return None
    age = view.files.now - row.time
    if age < max(STALL_SECONDS, STALL_STEPS * usual):
        return None
    return {"age": time_text(age), "usual": time_text(usual)}


def _steps_now(view: View) -> bool:
    """Return whether the newest row is of the attempt that runs."""
    row = view.files.row if view.files else None
    return row is not None and row.attempt == _progress(view).get("attempt")


def _preparing(view: View) -> Facts | None:
    progress = _progress(view)
    stage = str(progress.get("stage") or "")
    if not _is_live(view) or not progress or stage == TRAIN:
        return None
    began = [when for when in (progress.get("phases") or {}).values() if isinstance(when, float)]
    skew = view.files.now - view.now if view.files else 0.0
    age = lasting(view, max(began) - skew) if began else ""
    facts = {"stage": stage or "check", "lasting": age}
    if not (failed := RETRY.search(view.snapshot.log)):
        return {**facts, "failures": "", "remedy": Template("Nothing to do.")}
    failures = f"; it has failed {failed['count']} times ({clean(failed['cause'])})"
    remedy = Template("It tries again; correct what the cause names, or wait for that service.")
    return {**facts, "failures": failures, "remedy": remedy}


def _loading(view: View) -> Facts | None:
    progress = _progress(view)
    phases = progress.get("phases") or {}
    if not _is_live(view) or progress.get("stage") != TRAIN or _steps_now(view):
        return None
    if "gang" not in phases:
        return None
    return {"phase": max(phases, key=lambda name: phases[name])}


def _training(view: View) -> Facts | None:
    training = view.files.training if view.files else {}
    if not _is_live(view) or not _steps_now(view) or _stalled(view):
        return None
    eta = training.get("eta_seconds")
    remaining = time_text(eta) if isinstance(eta, int | float) else "an unknown time"
    row = view.files.row if view.files else None
    assert row is not None
    return {"step": row.step, "total": row.total, "remaining": remaining}


def _pods_awaited(view: View) -> Facts | None:
    """Match from the admission, or the installation without a queue, to the last pod's start."""
    may_start = view.is_admitted or not view.is_suspended
    ended = [rank for rank in view.ranks if rank.phase not in ("Pending", "Running")]
    is_known = view.gang and view.snapshot.answer("list pods").found
    if not is_known or not may_start or view.terminal or ended or view.is_running:
        return None
    stages = [pod for pod in view.snapshot.pods if not _is_of_gang(pod)]
    running = [pod["metadata"]["name"] for pod in stages if pod["status"]["phase"] == "Running"]
    created = view.jobset["metadata"].get("creationTimestamp")
    began = unix_time(view.workload_condition("Admitted").get("lastTransitionTime") or created)
    none_yet = not view.snapshot.pods and not view.is_suspended and not view.restarts[0]
    is_late = none_yet and began is not None and view.now - began > STARTED_SECONDS
    return {
        "remedy": LATE if is_late else SOON,
        "lasting": lasting(view, began),
        "count": sum(rank.phase == "Running" for rank in view.ranks),
        "nodes": view.nodes,
        "detail": f"; a stage runs in pod {running[0]}" if running else "",
    }


def _is_of_gang(pod: Object) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(JOB_LABEL) == GANG)


def _ending(view: View) -> Facts | None:
    succeeded = [rank for rank in view.ranks if rank.phase == "Succeeded"]
    return {"who": who(succeeded)} if succeeded and not view.terminal else None


def _running(view: View) -> Facts | None:
    if not _is_live(view):
        return None
    unread = "" if view.files else "; the workspace was not read, so the step is not known"
    return {"nodes": view.nodes, "detail": unread}


def _not_understood(view: View) -> Facts | None:
    lacks = view.snapshot.missing_permissions
    return {"permissions": f"; you lack {', '.join(lacks)}" if lacks else ""}


CONDITIONS: dict[str, Condition] = {
    "ranks-missing": _ranks_missing, "held": _held, "restarting": _restarting, "stalled": _stalled,
    "preparing": _preparing, "loading": _loading, "training": _training,
    "pods-awaited": _pods_awaited, "ending": _ending, "running": _running,
    "not-understood": _not_understood,
}  # fmt: skip
