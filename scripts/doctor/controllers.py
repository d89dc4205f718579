"""Whether JobSet's and Kueue's controllers run, as far as a user may see them."""

from __future__ import annotations

from scripts.doctor.answer import Object
from scripts.doctor.finding import Finding, fail, ok, unknown
from scripts.doctor.kinds import DEPLOYMENTS
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen

NAME = "app.kubernetes.io/name"
"""Label of the Deployments in the released manifests and charts of both."""

MANAGERS = ("jobset", "kueue")


def check(release: Release, seen: Seen) -> list[Finding]:
    """The Deployments; that the webhooks answer is seen by the dry run (submission.py)."""
    wanted = MANAGERS if release.queue else MANAGERS[:1]
    answer = seen.all(DEPLOYMENTS)
    if not answer.found:
        return [unknown(f"controller {name}", answer) for name in wanted]
    return [each for name in wanted for each in _controller(name, answer.items)]


def _controller(name: str, deployments: list[Object]) -> list[Finding]:
    subject = f"controller {name}"
    found = [
        item
        for item in deployments
        if (item["metadata"].get("labels") or {}).get(NAME) == name
        and "manager" in item["metadata"]["name"]
    ]
    if not found:
        return [ok(subject, "no Deployment of it here: it is managed elsewhere")]
    ready = [item for item in found if (item.get("status") or {}).get("readyReplicas")]
    metadata = found[0]["metadata"]
    if not ready:
        what = f"Deployment {metadata['name']} in {metadata['namespace']}"
        remedy = f"kubectl -n {metadata['namespace']} describe deployment {metadata['name']}"
        return [fail(subject, f"{what} has no ready pod", remedy)]
    return [ok(subject, f"ready, {_image(ready[0])}")]


def _image(deployment: Object) -> str:
    """Name and tag of the first container's image."""
    image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    return image.rpartition("/")[2].partition("@")[0]
