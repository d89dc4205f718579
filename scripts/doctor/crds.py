"""Whether the cluster knows JobSet and Kueue, with all fields that a release uses.

The schema is asked, not a version: Helm never upgrades the CRDs of a chart, and an old CRD silently
drops the fields that it does not know (kubernetes-sigs/jobset#893).
"""

from __future__ import annotations

from scripts.doctor.finding import Finding, fail, names, ok, unknown, warn
from scripts.doctor.kinds import JOBSET, KUEUE
from scripts.doctor.release import Release
from scripts.doctor.schema import dropped, knows, of_kind
from scripts.doctor.seen import Seen

NEEDED = {JOBSET: "JobSet >= 0.10", KUEUE: "Kueue >= 0.15"}
INSTALL = {JOBSET: "https://jobset.sigs.k8s.io", KUEUE: "https://kueue.sigs.k8s.io"}
FEATURES = {
    "spec.replicatedJobs[].dependsOn": "stages.placement: jobs",
    "spec.failurePolicy.rules[].onJobFailureMessagePatterns": "restarts by exit code",
    "spec.failurePolicy.restartStrategy": "restarts of the whole gang",
    "spec.ttlSecondsAfterFinished": "ttlSecondsAfterFinished",
}
"""Fields that came after JobSet's first release, and what of the chart needs them."""
APPLY = (
    f"kubectl apply --server-side the CRDs of {NEEDED[JOBSET]}: Helm leaves old ones as they are"
)


def check(release: Release, seen: Seen) -> list[Finding]:
    """JobSet's kinds, and Kueue's if there is a queue."""
    found = [_group(seen, JOBSET, "v1alpha2")]
    if not found[0].remedy:
        found.append(_schema(release, seen))
    if release.queue:
        found.append(_group(seen, KUEUE, "v1beta2"))
    return found


def _group(seen: Seen, group: str, version: str) -> Finding:
    name = NEEDED[group].partition(" ")[0]
    served = seen.versions(group)
    if not served:
        return fail(name, "not in this cluster", f"install {NEEDED[group]}: {INSTALL[group]}")
    if version not in served:
        return fail(name, f"serves {', '.join(served)}, not {version}", f"install {NEEDED[group]}")
    return ok(name, f"{group}/{version} is served")


def _schema(release: Release, seen: Seen) -> Finding:
    subject = "JobSet CRD"
    schema = of_kind(seen.schema.content, "JobSet") if seen.schema.found else None
    if schema is None:
        return unknown(subject, seen.schema)
    lost = dropped(seen.schema.content, schema, {"spec": release.jobset["spec"]})
    if lost:
        return fail(subject, f"it is old and drops {names(lost)}", APPLY)
    missing = {path for path in FEATURES if not knows(seen.schema.content, schema, path)}
    if missing:
        what = names(f"{path} ({FEATURES[path]})" for path in missing)
        return warn(subject, f"it is old: it lacks {what}", APPLY)
    return ok(subject, f"knows all fields of {release.jobset['metadata']['name']}")
