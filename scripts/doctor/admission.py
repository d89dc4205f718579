"""Whether the namespace admits the pods: a server-side dry run of one pod of each kind.

The real admission answers: Pod Security, LimitRange, ResourceQuota, priority, policies.
"""

from __future__ import annotations

from scripts.doctor.answer import Answer
from scripts.doctor.finding import Finding, fail, ok, unknown, warn
from scripts.doctor.kinds import NAMESPACES
from scripts.doctor.release import Release
from scripts.doctor.seen import Seen

LEVEL = "pod-security.kubernetes.io/enforce"
REMEDIES = {
    "violates PodSecurity": f"label the namespace {LEVEL}=privileged, or use network.profile: tcp",
    "exceeded quota": "lower resources, or ask the administrator for a bigger ResourceQuota",
    "failed quota": "write what it names under resources.limits or resources.requests",
    "usage per Container": "change resources to fit the namespace's LimitRange",
    "no PriorityClass": "write an existing one in priorityClassName, or leave it empty",
    "service account": "create it, or leave serviceAccountName empty",
    "failed calling webhook": "the administrator restarts what is behind this webhook",
}
"""What a refusal's text has in it, and what helps."""
OTHER = "change what the message names, or ask who made the policy"


def check(release: Release, seen: Seen) -> list[Finding]:
    """One line for each kind of pods, and the warnings of all."""
    if not seen.one(NAMESPACES, seen.namespace).found:
        answer = seen.one(NAMESPACES, seen.namespace)
        if answer.absent:
            remedy = f"kubectl create namespace {seen.namespace}, or write --namespace"
            return [fail(f"namespace {seen.namespace}", "does not exist", remedy)]
    found = [_pods(each.name, seen.pods[each.name]) for each in release.pod_sets]
    texts = {text for each in seen.pods.values() for text in each.warnings}
    return [*found, *(warn("pods", text) for text in sorted(texts))]


def _pods(name: str, answer: Answer) -> Finding:
    subject = f"pods {name}"
    if answer.found:
        return ok(subject, "admitted by the namespace")
    if answer.status == 0 or "cannot create resource" in answer.why:
        return unknown(subject, answer)
    remedies = [remedy for text, remedy in REMEDIES.items() if text in answer.why]
    return fail(subject, answer.why, (remedies or [OTHER])[0])
