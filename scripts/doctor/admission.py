"""Admission of the release: its name, and server-side dry runs of the JobSet and of its pods.

The dry runs go through the real admission: webhooks, Pod Security, LimitRange, ResourceQuota,
priority, policies.
"""

from collections.abc import Mapping

from scripts.doctor.api import (
    CONFIG_MAPS,
    JOBSETS,
    NAMESPACES,
    POLICIES,
    SECRETS,
    SERVICES,
    Answer,
    Object,
)
from scripts.doctor.findings import Finding, fail, names, ok, unchecked, warn
from scripts.doctor.nodes import selects
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import Release, ReplicatedJob

LEVEL = "pod-security.kubernetes.io/enforce"
REMEDIES = {
    "violates PodSecurity": f"label the namespace {LEVEL}=privileged, or use network.profile: tcp",
    "exceeded quota": "lower resources, or ask the administrator for a larger ResourceQuota",
    "failed quota": "set the resources it names in resources.limits or resources.requests",
    "usage per Container": "change resources to fit the namespace's LimitRange",
    "no PriorityClass": "set priorityClassName to an existing class, or leave it empty",
    "RuntimeClass": "set runtimeClassName to an existing class, or leave it empty",
    "service account": "create it, or leave serviceAccountName empty",
    "failed calling webhook": "the administrator restarts the controller behind this webhook",
}
"""Part of a refusal's text, and its remedy."""
PROXIES = {"istio-proxy", "linkerd-proxy"}
"""Containers that never end; of others a controller may end those of Jobs."""
INJECTED = 'podLabels: {sidecar.istio.io/inject: "false"}, podAnnotations: {linkerd.io/inject: '
INJECTED += "disabled}, or native sidecars (init containers with restartPolicy: Always)"
OTHER_REMEDY = "change what the message names, or ask the owner of the policy"


def check_name(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check that the release's name is free."""
    subject = f"run {release.name}"
    records = snapshot.listed(SECRETS)
    other = "choose another --run, or "
    if records.found and records.items:
        status = (records.items[-1]["metadata"].get("labels") or {}).get("status", "installed")
        found = f"Helm has a release of this name here ({status})"
        remedy = f"{other}helm uninstall {release.name}; its workspace stays"
        return [fail("release-exists", subject, found, remedy)]
    wanted = [(JOBSETS, release.name), (SERVICES, release.name)]
    wanted += [(CONFIG_MAPS, each) for each in sorted(release.of_kind("ConfigMap"))]
    answers = {f"{kind.plural}/{name}": snapshot.named(kind, name) for kind, name in wanted}
    taken = [place for place, answer in answers.items() if answer.found]
    if taken:
        found = f"{names(taken)} exists already and is not of this release"
        remedy = f"{other}kubectl -n {snapshot.namespace} delete {' '.join(taken)}"
        return [fail("name-taken", subject, found, remedy)]
    unread = [] if records.found else [records]
    unread += [each for each in answers.values() if each.unknown]
    if unread:
        return [unchecked("name", subject, unread[0])]
    return [ok("name-ok", subject, "the name is free")]


def check_jobset(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check the dry run of creating the JobSet."""
    subject, answer = "JobSet dry run", snapshot.jobset
    warned = [warn("jobset-warning", subject, text) for text in answer.warnings]
    if answer.found:
        return [*warned, _suspended(subject, release, snapshot)]
    if answer.status == 409:
        found = "not checked, because a JobSet of this name exists"
        return [warn("jobset-unchecked", subject, found)]
    if answer.absent or _is_unknown(answer):
        return [unchecked("jobset", subject, answer)]
    if "failed calling webhook" in answer.why:
        return [fail("jobset-webhook", subject, answer.why, REMEDIES["failed calling webhook"])]
    return [*warned, fail("jobset-refused", subject, answer.why, OTHER_REMEDY)]


def _suspended(subject: str, release: Release, snapshot: Snapshot) -> Finding:
    """Check that Kueue's webhook suspended the JobSet; otherwise it starts without the queue."""
    is_suspended = (snapshot.jobset.content.get("spec") or {}).get("suspend")
    if release.jobset.queue and not is_suspended:
        return fail(
            "jobset-not-queued",
            subject,
            "Kueue does not manage it: it would start at once, without a quota",
            "the administrator adds jobset.x-k8s.io/jobset to integrations.frameworks of Kueue",
        )
    return ok("jobset-ok", subject, "accepted, webhooks included")


def check_pods(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check the dry run of one pod of each replicated job, and the warnings of all."""
    namespace = snapshot.named(NAMESPACES, snapshot.namespace)
    if namespace.absent:
        remedy = f"kubectl create namespace {snapshot.namespace}, or give --namespace"
        subject = f"namespace {snapshot.namespace}"
        return [fail("namespace-missing", subject, "does not exist", remedy)]
    found = [_pods(job, snapshot.pods[job.name]) for job in release.jobset.jobs]
    texts = {text for each in snapshot.pods.values() for text in each.warnings}
    return [*found, *(warn("pods-warning", "pods", text) for text in sorted(texts))]


def check_network(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check that the NetworkPolicies of the namespace let the ranks reach each other.

    Policies add up: one that admits the run's pods is enough. Peers by namespace or address are
    taken for ones that do; a user who may not read policies learns nothing here.
    """
    answer = snapshot.listed(POLICIES)
    if release.gang.count == 1 or release.of_kind("NetworkPolicy") or not answer.found:
        return []
    labels = release.gang.labels
    specs = {each["metadata"]["name"]: each["spec"] for each in answer.items}
    found = []
    for side, peers in (("ingress", "from"), ("egress", "to")):
        closing = {
            name: spec.get(side) or ()
            for name, spec in specs.items()
            if selects(spec.get("podSelector") or {}, labels) and _has_side(spec, side)
        }
        rules = [rule for each in closing.values() for rule in each]
        if closing and not any(_admits(rule, peers, labels) for rule in rules):
            text = f"{names(closing)} closes {side}, where they apply: ranks would not be reached"
            remedy = "set networkPolicy.enabled: true, whose policy admits the run's pods"
            found.append(warn("network-policy-closes", "NetworkPolicies", text, remedy))
    return found


def _has_side(spec: Object, side: str) -> bool:
    given = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return side.capitalize() in given


def _admits(rule: Object, peers: str, labels: Mapping[str, str]) -> bool:
    others = [each for each in rule.get(peers) or () if set(each) != {"podSelector"}]
    own = [each["podSelector"] for each in rule.get(peers) or () if set(each) == {"podSelector"}]
    is_any = not rule.get(peers) or others or any(selects(each, labels) for each in own)
    return bool(is_any) and not rule.get("ports")


def _pods(job: ReplicatedJob, answer: Answer) -> Finding:
    subject = f"pods {job.name}"
    own, there = (
        {each["name"] for each in pod.get("containers") or ()}
        for pod in (job.pod, answer.content.get("spec") or {})
    )
    if added := there - own:
        act = fail if added & PROXIES else warn
        found = f"admission adds {names(added)}, and the run ends only when it ends, too"
        return act("pods-injected", subject, found, INJECTED)
    if answer.found:
        return ok("pods-ok", subject, "admitted by the namespace")
    if _is_unknown(answer):
        return unchecked("pods", subject, answer)
    remedies = [remedy for text, remedy in REMEDIES.items() if text in answer.why]
    return fail("pods-refused", subject, answer.why, (remedies or [OTHER_REMEDY])[0])


def _is_unknown(answer: Answer) -> bool:
    """Return whether a dry run was not judged: no right to create, or a server that fails.

    Admission also answers 403, and a webhook's failure is one of the server (500).
    """
    is_forbidden = answer.status == 403 and "cannot create resource" in answer.why
    return is_forbidden or (answer.lost and "webhook" not in answer.why)
