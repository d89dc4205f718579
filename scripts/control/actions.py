"""Decide what `stop`, `resume` and `rerun` change. Pure.

`stop` deactivates the Workload of a queued run (`spec.active: false`): Kueue then suspends the
JobSet and gives the quota back, as for a preemption, so the ranks save at SIGTERM. Suspending the
JobSet itself would not hold, because Kueue starts an admitted JobSet again. A run without a queue
is suspended directly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.doctor.api import JOBSETS, WORKLOADS, Object
from scripts.manifest import Release
from scripts.observe.view import View
from scripts.problem import Problem
from scripts.why.holding import STOPPED_BY, is_inactive
from scripts.why.reasons import missing_run
from scripts.why.words import addressed

UNINSTALL = "`helm uninstall {run} -n {space} --cascade foreground --wait`"
HELM = "meta.helm.sh/"
"""Prefix of the annotations by which Helm knows its objects."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One request."""

    method: str
    """PATCH, DELETE or POST."""
    path: str
    content: Mapping[str, Any]
    permission: str


@dataclass(frozen=True, kw_only=True)
class Action:
    """Requests that a verb makes for a run; none if nothing changes."""

    says: str
    """In words, before it is done."""
    changes: Sequence[Change] = ()
    without_permission: str = ""
    """The remedy if a request is refused."""


def stop(view: View, who: str) -> Action:
    """Return how a run is stopped; it keeps its place in the cluster and its files.

    Raises:
        Problem: there is no such run.
    """
    jobset = _existing(view)
    if view.terminal:
        return Action(says=f"run {view.run} has ended ({view.terminal}); nothing to stop")
    if is_inactive(view) or (view.is_suspended and not view.queue):
        return Action(says=f"run {view.run} is stopped already")
    grace = _grace(view)
    pods = view.snapshot.answer("list pods")
    saves = f"its ranks get SIGTERM and up to {grace} s to save"
    if not pods.found:
        saves += f" (whether it has pods is not known: {pods.why})"
    elif not view.ranks:
        saves = "it has no pods"
    if view.queue and not view.workload:
        raise Problem(
            f"run {view.run} is in queue {view.queue}, but Kueue has no Workload for it; end it "
            f"with {_uninstall(view, jobset)}"
        )
    says = f"suspends JobSet {view.run}: {saves}"
    if view.queue:
        says = f"deactivates the Workload of {view.run}: {saves}; its quota becomes free"
    return Action(
        says=says,
        changes=_switch(view, runs=False, who=who, is_queued=bool(view.queue)),
        without_permission=f"{_uninstall(view, jobset)} stops it, too, and keeps the workspace",
    )


def resume(view: View) -> Action:
    """Return how a stopped run is put back into its queue.

    Raises:
        Problem: there is no such run, or it has ended.
    """
    _existing(view)
    if view.terminal:
        again = addressed(f"`megatron-dpo rerun {view.run}`", view)
        raise Problem(f"run {view.run} has ended ({view.terminal}); start it again with {again}")
    newest = view.files.newest if view.files else None
    place = f"from step {newest.step}" if newest else "from its newest checkpoint"
    if is_inactive(view):
        return Action(
            says=f"puts {view.run} back into queue {view.queue}; it resumes {place}",
            changes=_switch(view, runs=True, who=None, is_queued=True),
            without_permission=f"uninstall the release and install it again: it resumes {place}",
        )
    if view.is_suspended and not view.queue:
        return Action(
            says=f"starts {view.run} again; it resumes {place}",
            changes=_switch(view, runs=True, who=None, is_queued=False),
            without_permission="ask the administrator for `patch jobsets`",
        )
    see = addressed(f"`megatron-dpo why {view.run}`", view)
    return Action(says=f"run {view.run} was not stopped; see {see}")


def rerun(view: View, release: Release) -> Action:
    """Return how a run that has ended is started again under its name.

    The JobSet is created from Helm's record, not from the cluster's object, to which Kueue has
    added node labels and tolerations of the flavor it ran on.

    Raises:
        Problem: the run has not ended.
    """
    if view.jobset and not view.terminal:
        said = f"`megatron-dpo stop {view.run}` and `megatron-dpo resume {view.run}` interrupt it"
        raise Problem(f"run {view.run} has not ended; {addressed(said, view)}")
    newest = view.files.newest if view.files else None
    place = f"resumes from step {newest.step}" if newest else "resumes from its newest checkpoint"
    path = JOBSETS.path(view.namespace)
    made = _create(release, view.jobset, view.namespace)
    changes = [Change(method="POST", path=path, content=made, permission="create jobsets")]
    if view.jobset:
        gone = Change(
            method="DELETE",
            path=f"{path}/{view.run}",
            # not one that somebody has started since
            content={
                "propagationPolicy": "Foreground",
                "preconditions": {"uid": view.jobset["metadata"]["uid"]},
            },
            permission="delete jobsets",
        )
        changes.insert(0, gone)
    ended = f"removes the ended JobSet ({view.terminal}) and " if view.jobset else ""
    values = "the values of its installation"
    if view.jobset and _checksums(view.jobset) != _checksums(made):
        values = f"values that differ from those it ran with (`helm history {view.run}`)"
    return Action(
        says=f"{ended}creates JobSet {view.run} again with {values}; it "
        f"{place}, and a run that has exported is up to date at once",
        changes=changes,
        without_permission="uninstall the release and install it again",
    )


def _create(release: Release, live: Object, space: str) -> Mapping[str, Any]:
    """Return the JobSet of Helm's record with the annotations by which Helm knows it."""
    made = release.jobset.manifest
    metadata = made["metadata"]
    notes = (live.get("metadata") or {}).get("annotations") or {}
    helm = {f"{HELM}release-name": release.name, f"{HELM}release-namespace": space}
    helm |= {name: value for name, value in notes.items() if name.startswith(HELM)}
    annotations = {**(metadata.get("annotations") or {}), **helm}
    return {**made, "metadata": {**metadata, "namespace": space, "annotations": annotations}}


def _checksums(jobset: Object) -> Mapping[str, str]:
    """Return the chart's checksums of a JobSet's spec, recipe and launcher."""
    found = dict(jobset["metadata"].get("annotations") or {})
    for job in jobset["spec"]["replicatedJobs"]:
        found |= job["template"]["spec"]["template"]["metadata"].get("annotations") or {}
    return {name: text for name, text in found.items() if name.startswith("checksum/")}


def _existing(view: View) -> Object:
    if not view.jobset:
        raise missing_run(view)
    return view.jobset


def _grace(view: View) -> int:
    return int((view.gang_pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 30)


def _uninstall(view: View, jobset: Object) -> str:
    text = UNINSTALL.format(run=jobset["metadata"]["name"], space=view.namespace)
    return addressed(text, view)


def _switch(view: View, *, runs: bool, who: str | None, is_queued: bool) -> list[Change]:
    """Return what starts or stops a run; ``who`` has stopped it, None for nobody any more."""
    change: dict[str, Any] = {"metadata": {"annotations": {STOPPED_BY: who}}}
    found = []
    if is_queued:
        path = WORKLOADS.path(view.namespace, view.workload["metadata"]["name"])
        found = [_patch(path, {"spec": {"active": runs}}, "patch workloads")]
    else:
        change["spec"] = {"suspend": not runs}
    return [*found, _patch(JOBSETS.path(view.namespace, view.run), change, "patch jobsets")]


def _patch(path: str, content: Mapping[str, Any], permission: str) -> Change:
    return Change(method="PATCH", path=path, content=content, permission=permission)
