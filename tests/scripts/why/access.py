"""States of a run whose cluster or files cannot be read in full."""

from dataclasses import replace
from typing import Any

from scripts.observe.view import View
from tests.scripts.observe.planted import NOW, Object, jobset, listed, refused, view
from tests.scripts.why.planted import States, files, progress, row


def recorded(document: Object, **fields: Any) -> View:
    """A run whose files are mounted, and no kubeconfig."""
    seen = view(get_jobsets=refused(0, "x"), files=files(**fields, root="/mnt/a b"))
    assert seen.files is not None
    stale = {**document, "updated": NOW - 90}
    return unselected(View(seen.snapshot, replace(seen.files, progress=stale)))


def unselected(seen: View) -> View:
    return View(replace(seen.snapshot, unselected="no kubeconfig"), seen.files)


STATES: States = {
    "files-running": (
        lambda: recorded(progress(stage="convert"), heartbeat=NOW - 6),
        "stage convert; its last sign of life is 6.0 s old. No cluster was asked: no kubeconfig.",
    ),
    "files-silent": (
        lambda: recorded(progress(), heartbeat=NOW - 90, row=row(90)),
        "in stage train, step 34 of 107, and there has been no sign of life for 90 s. No cluster",
    ),
    "files-failed": (
        lambda: recorded(progress(state="failed", code=65, why="no pairs.")),
        "failed with exit code 65: no pairs. No cluster was asked",
    ),
    "files-succeeded": (
        lambda: recorded(progress(state="succeeded"), has_export=True),
        "succeeded: export/ holds the model. No cluster was asked",
    ),
    "no-cluster": (
        lambda: unselected(view(get_jobsets=refused(0, "x"))),
        "No cluster was asked: no kubeconfig.",
    ),
    "cluster-unreachable": (
        lambda: view(get_jobsets=refused(0, "Connection refused")),
        "context here does not answer: Connection refused.",
    ),
    "cluster-error": (
        lambda: view(jobset(), list_pods=refused(503, "apiserver is shutting down")),
        "context here left a request without an answer: list pods: apiserver is shutting down.",
    ),
    "not-authenticated": (lambda: view(get_jobsets=refused(401, "Unauthorized")), "here"),
    "jobset-api-missing": (
        lambda: view(groups=["kueue.x-k8s.io"], get_jobsets=refused(404, "404 page not found")),
        "no JobSet API",
    ),
    "no-permission": (lambda: view(get_jobsets=refused()), "User eve"),
    "run-ended-and-removed": (
        lambda: view(files=files(progress={"state": "failed", "why": "disk full"})),
        "failed (disk full)",
    ),
    "run-not-found": (
        lambda: view(list_jobsets=listed([{"metadata": {"name": "dpo-2"}}])),
        "no run dpo in namespace team of context here",
    ),
    "foreign-jobset": (
        lambda: view({"metadata": {"name": "dpo", "uid": "u"}, "spec": {"replicatedJobs": []}}),
        "not made by this chart",
    ),
    "not-understood": (
        lambda: view(jobset(), list_pods=refused(), list_jobs=refused()),
        "you lack list jobs, list pods",
    ),
}
