"""States of a run that no cluster shows: a laptop's, a bare host's, Slurm's; by its files alone."""

import shlex

from launchers.storage.lock import STALE
from scripts.observe.view import View
from scripts.observe.workspace import RunFiles
from scripts.plan.units import time_text
from scripts.why.words import Condition, Facts, clean

QUIET_SECONDS = 600.0
"""Time without a change after which a run without `run.lock` counts as silent: an evaluation or
a save may lie between two steps."""


def _files(view: View) -> RunFiles | None:
    """Return the files of a run that the API does not show; None where it does."""
    if view.jobset or view.files is None or not view.files.exists:
        return None
    return view.files


def _api(view: View) -> str:
    """Return why the cluster says nothing about the run."""
    seen = view.snapshot
    if seen.unselected:
        return f"No cluster was asked: {clean(seen.unselected)}"
    if not view.is_answered:
        why = clean(seen.answer("get jobsets").cause)
        return f"The API server of context {seen.context} does not answer: {why}"
    return f"Namespace {view.namespace} of context {seen.context} has no JobSet {view.run}"


def _facts(view: View, files: RunFiles) -> dict[str, object]:
    stage = str(files.progress.get("stage") or "")
    step = f", step {files.row.step} of {files.row.total}" if files.row else ""
    root = f" --workspace {shlex.quote(files.root)}" if files.root else ""
    newest = files.newest
    return {
        "api": _api(view),
        "doing": f"in stage {stage}{step}" if stage else "before its first stage",
        "see": f"`megatron-dpo logs {view.run}{root}`",
        "saved": f"it resumes from step {newest.step}" if newest else "no checkpoint is complete",
    }


def _age(files: RunFiles) -> float:
    """Return the seconds since the run last showed that it lives; negative by a clock behind."""
    updated = files.progress.get("updated")
    times = [files.heartbeat, updated, files.row.time if files.row else None]
    known = [float(each) for each in times if isinstance(each, int | float)]
    return files.now - max(known, default=0.0)


def _is_quiet(files: RunFiles) -> bool:
    limit = QUIET_SECONDS if files.heartbeat is None else STALE
    return not -QUIET_SECONDS <= _age(files) <= limit


def _running(view: View) -> Facts | None:
    """Match also where an API server has no such JobSet: the run is not the cluster's."""
    files = _files(view)
    if files is None or files.progress.get("state") != "running" or _is_quiet(files):
        return None
    return {**_facts(view, files), "age": time_text(max(0.0, _age(files)))}


def _ended(view: View, state: str) -> RunFiles | None:
    """Return the files of a run in this state where no API server answers."""
    files = None if view.is_answered else _files(view)
    return files if files is not None and files.progress.get("state") == state else None


def _silent(view: View) -> Facts | None:
    files = None if view.is_answered else _files(view)
    if files is None or files.progress.get("state") in ("succeeded", "failed"):
        return None
    seconds, age = _age(files), ""
    if seconds < 0:
        age = f" that this clock can date: the last is {time_text(-seconds)} ahead of it"
    elif files.progress:
        age = f" for {time_text(seconds)}"
    return {**_facts(view, files), "age": age}


def _failed(view: View) -> Facts | None:
    files = _ended(view, "failed")
    if files is None:
        return None
    found = _facts(view, files)
    code = files.progress.get("code")
    root = view.attempt.root if view.attempt else None
    why = clean(str(files.progress.get("why") or (root.cause if root else "")))
    remedy = root.remedy.rstrip(".") if root and root.remedy else f"see {found['see']}"
    return {
        **found,
        "code": f" with exit code {code}" if code else "",
        "why": f": {why}" if why else "",
        "remedy": f"{remedy[:1].upper()}{remedy[1:]}; started again, {found['saved']}.",
    }


def _succeeded(view: View) -> Facts | None:
    files = _ended(view, "succeeded")
    if files is None:
        return None
    result = "export/ holds the model" if files.has_export else "all stages are done"
    return {**_facts(view, files), "result": result}


CONDITIONS: dict[str, Condition] = {
    "files-running": _running,
    "files-silent": _silent,
    "files-failed": _failed,
    "files-succeeded": _succeeded,
}
