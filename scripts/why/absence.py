"""States in which there is no run to explain: no server, no permission, no JobSet."""

from launchers import suggestion
from scripts.observe.cluster import EVERYWHERE
from scripts.observe.view import View
from scripts.why.words import Condition, Facts, clean

JOBSET_GROUP = "jobset.x-k8s.io"


def _no_cluster(view: View) -> Facts | None:
    why = view.snapshot.unselected
    return {"why": clean(why)} if why else None


def _cluster_unreachable(view: View) -> Facts | None:
    answer = view.snapshot.answer("get jobsets")
    if answer.status != 0:
        return None
    return {"context": view.snapshot.context, "why": clean(answer.cause)}


def _cluster_error(view: View) -> Facts | None:
    lost = view.snapshot.lost
    return {"context": view.snapshot.context, "why": clean(lost)} if lost else None


def _not_authenticated(view: View) -> Facts | None:
    answer = view.snapshot.answer("get jobsets")
    return {"context": view.snapshot.context, "why": answer.why} if answer.status == 401 else None


def _jobset_api_missing(view: View) -> Facts | None:
    groups = view.snapshot.groups
    return {} if not view.jobset and groups is not None and JOBSET_GROUP not in groups else None


def _no_permission(view: View) -> Facts | None:
    answer = view.snapshot.answer("get jobsets")
    return {"why": answer.why} if answer.unknown else None


def _run_ended_and_removed(view: View) -> Facts | None:
    if view.jobset or not (view.files and view.files.exists):
        return None
    progress = view.files.progress
    state = str(progress.get("state") or "nothing is recorded")
    why = f" ({progress['why']})" if progress.get("why") else ""
    newest = view.files.newest
    saved = f", newest checkpoint at step {newest.step}" if newest else ""
    return {"ending": f"{state}{why}{saved}"}


def _run_not_found(view: View) -> Facts | None:
    if view.jobset:
        return None
    listed = view.snapshot.answer("list jobsets")
    known = {each["metadata"]["name"] for each in listed.items}
    if known:
        near = suggestion.remedy(view.run, known)
        near = near[0].upper() + near[1:]
    elif listed.found:
        near = f"Namespace {view.namespace} has no runs"
    else:
        near = "The namespace's runs may not be listed"
    spaces = sorted(
        each["metadata"]["namespace"] for each in view.snapshot.answer(EVERYWHERE).items
    )
    if spaces:
        see = f"`megatron-dpo why {view.run} -n {spaces[0]}`"
        near = f"Namespace {' and '.join(spaces)} has a run of this name ({see})"
    return {"context": view.snapshot.context, "near": near}


def _foreign_jobset(view: View) -> Facts | None:
    return {} if view.jobset and not view.gang else None


CONDITIONS: dict[str, Condition] = {
    "no-cluster": _no_cluster, "cluster-unreachable": _cluster_unreachable,
    "cluster-error": _cluster_error, "not-authenticated": _not_authenticated,
    "jobset-api-missing": _jobset_api_missing, "no-permission": _no_permission,
    "run-ended-and-removed": _run_ended_and_removed, "run-not-found": _run_not_found,
    "foreign-jobset": _foreign_jobset,
}  # fmt: skip
