"""What the API server and all webhooks say to the JobSet itself, by a server-side dry run."""

from __future__ import annotations

from scripts.doctor.finding import Finding, fail, names, ok, unknown, warn
from scripts.doctor.kinds import ACCOUNTS, CONFIG_MAPS, JOBSETS, SECRETS, SERVICES
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen


def check(release: Release, seen: Seen) -> list[Finding]:
    """The release's name, then the JobSet as it would be created."""
    return [*_name(release, seen), *_dry_run(release, seen)]


def _name(release: Release, seen: Seen) -> list[Finding]:
    subject = f"run {release.name}"
    records = seen.all(SECRETS)
    other = "choose another --run, or "
    if records.found and records.items:
        status = (records.items[-1]["metadata"].get("labels") or {}).get("status", "installed")
        remedy = f"{other}helm uninstall {release.name}; its workspace stays"
        return [fail(subject, f"Helm has a release of this name here ({status})", remedy)]
    name = release.jobset["metadata"]["name"]
    wanted = [(JOBSETS, name), (SERVICES, name)]
    wanted += [(CONFIG_MAPS, each) for each in sorted(release.own("ConfigMap"))]
    taken = [f"{kind.plural}/{each}" for kind, each in wanted if seen.one(kind, each).found]
    if taken:
        remedy = f"{other}kubectl -n {seen.namespace} delete {' '.join(taken)}"
        return [fail(subject, f"there is {names(taken)} already, not of this release", remedy)]
    if not records.found:
        return [unknown(subject, records)]
    return [ok(subject, "the name is free")]


def _dry_run(release: Release, seen: Seen) -> list[Finding]:
    subject, answer = "JobSet dry run", seen.jobset
    warned = [warn(subject, text) for text in answer.warnings]
    if answer.found:
        return [*warned, _suspended(release, seen)]
    if answer.status == 409:
        return [warn(subject, "not checked, because a JobSet of this name is there")]
    if answer.status == 403 and "cannot create resource" in answer.why:
        return [unknown(subject, answer)]
    if answer.status in (0, 404):
        return [unknown(subject, answer)]
    if "failed calling webhook" in answer.why:
        remedy = "the administrator restarts the controller behind this webhook"
        return [fail(subject, answer.why, remedy)]
    return [*warned, fail(subject, answer.why, "change what the message names, or ask its owner")]


def _suspended(release: Release, seen: Seen) -> Finding:
    """Kueue's webhook suspends a JobSet that has a queue; one that it leaves starts unqueued."""
    is_suspended = (seen.jobset.content.get("spec") or {}).get("suspend")
    if release.queue and not is_suspended:
        return fail(
            "JobSet dry run",
            "Kueue does not take it into its queue: it would start at once, beside the quota",
            "the administrator adds jobset.x-k8s.io/jobset to integrations.frameworks of Kueue",
        )
    return ok("JobSet dry run", "accepted, webhooks included")


def account(release: Release, seen: Seen) -> list[Finding]:
    """The pods' service account."""
    name = str(release.gang.spec.get("serviceAccountName") or "default")
    answer = seen.one(ACCOUNTS, name)
    subject = f"service account {name}"
    if answer.absent:
        return [fail(subject, "does not exist", f"kubectl create serviceaccount {name}")]
    return [ok(subject, "exists") if answer.found else unknown(subject, answer)]
