"""The cluster's control plane: API server, the APIs of JobSet and Kueue, their controllers.

Fields are looked up in the schema, not derived from a version: Helm never upgrades the CRDs of a
chart, and an old CRD silently drops fields that it does not know (kubernetes-sigs/jobset#893).
"""

from collections.abc import Iterator
from typing import Any

from launchers.upstream.versions import parse_version
from scripts.doctor.api import DEPLOYMENTS, JOBSET, Object
from scripts.doctor.findings import Finding, fail, names, ok, unchecked, warn
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import KUEUE, Release

OLDEST_KUBERNETES = (1, 34)
"""The chart's `kubeVersion`: podFailurePolicy and podReplacementPolicy are stable there."""
NEEDED = {JOBSET: "JobSet >= 0.10", KUEUE: "Kueue >= 0.15"}
INSTALL = {JOBSET: "https://jobset.sigs.k8s.io", KUEUE: "https://kueue.sigs.k8s.io"}
FEATURES = {
    "spec.replicatedJobs[].dependsOn": "stages.placement: jobs",
    "spec.failurePolicy.rules[].onJobFailureMessagePatterns": "restarts by exit code",
    "spec.failurePolicy.restartStrategy": "restarts of the whole gang",
    "spec.ttlSecondsAfterFinished": "ttlSecondsAfterFinished",
}
"""Fields added after JobSet's first release, and the feature of the chart that needs each."""
APPLY = f"kubectl apply --server-side the CRDs of {NEEDED[JOBSET]}: Helm does not upgrade CRDs"
NAME_LABEL = "app.kubernetes.io/name"
"""Label of the controllers' Deployments in the released manifests and charts of both."""
CONTROLLERS = ("jobset", "kueue")
IN_PLACE_KUBERNETES = (1, 36)
"""Restart of all containers of a pod by an exit code is on by default there
(RestartAllContainersOnContainerExits in kubernetes/kubernetes:pkg/features)."""


def check_server(snapshot: Snapshot) -> list[Finding]:
    """Check that the API server answers, and its version."""
    subject, answer = "API server", snapshot.version
    if not answer.found:
        remedy = "correct the kubeconfig or --context; `kubectl version` must answer"
        if answer.status in (0, 401):
            return [fail("api-server-no-answer", subject, answer.why, remedy)]
        return [unchecked("api-server", subject, answer, remedy)]
    text, version = _kubernetes(snapshot)
    if version and version < OLDEST_KUBERNETES:
        remedy = "use a cluster of Kubernetes {}.{} or newer".format(*OLDEST_KUBERNETES)
        return [fail("kubernetes-too-old", subject, f"Kubernetes {text}", remedy)]
    return [ok("api-server-ok", subject, f"Kubernetes {text}")]


def _kubernetes(snapshot: Snapshot) -> tuple[str, tuple[int, ...]]:
    """Return the API server's version as text, and its numbers."""
    text = str(snapshot.version.content.get("gitVersion", ""))
    return text, parse_version(text.removeprefix("v"))


def answers(snapshot: Snapshot) -> bool:
    """Return whether the API server answered, so that the other checks make sense."""
    return snapshot.version.found and snapshot.groups.found


def check_apis(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check that JobSet's API, with all fields of the release, and Kueue's are served."""
    jobset = _served(snapshot, JOBSET, "v1alpha2")
    found = [jobset]
    if not jobset.remedy:
        found.append(_fields(release, snapshot))
    found += _in_place(release, snapshot)
    if release.jobset.queue:
        found.append(_served(snapshot, KUEUE, "v1beta2"))
    return found


def _in_place(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check that the kubelets can restart pods in place, if JobSet's agent is to ask for it.

    JobSet's own part, its feature gate, is shown by the dry run: the webhook refuses without it.
    """
    policy = release.jobset.manifest["spec"].get("failurePolicy") or {}
    text, version = _kubernetes(snapshot)
    if policy.get("restartStrategy") != "InPlaceRestart" or not version:
        return []
    subject = "restarts.agentImage"
    if version < IN_PLACE_KUBERNETES:
        found = f"Kubernetes {text} does not restart the containers of a pod by an exit code"
        remedy = "use Kubernetes {}.{} or newer, or remove it".format(*IN_PLACE_KUBERNETES)
        return [fail("agent-kubernetes", subject, found, remedy)]
    return [ok("agent-ok", subject, f"Kubernetes {text} restarts containers in place")]


def _served(snapshot: Snapshot, group: str, version: str) -> Finding:
    name = NEEDED[group].partition(" ")[0]
    id, served = f"{name.lower()}-api", snapshot.versions(group)
    if not served:
        remedy = f"install {NEEDED[group]}: {INSTALL[group]}"
        return fail(f"{id}-missing", name, "not in this cluster", remedy)
    if version not in served:
        found = f"serves {', '.join(served)}, not {version}"
        return fail(f"{id}-version", name, found, f"install {NEEDED[group]}")
    return ok(f"{id}-ok", name, f"{group}/{version} is served")


def _fields(release: Release, snapshot: Snapshot) -> Finding:
    subject, answer = "JobSet CRD", snapshot.schema
    schema = kind_schema(answer.content, "JobSet") if answer.found else None
    if schema is None:
        return unchecked("jobset-crd", subject, answer)
    lost = dropped_fields(answer.content, schema, {"spec": release.jobset.manifest["spec"]})
    if lost:
        return fail("jobset-crd-drops-fields", subject, f"it is old and drops {names(lost)}", APPLY)
    missing = {path for path in FEATURES if not has_field(answer.content, schema, path)}
    if missing:
        what = names(f"{path} ({FEATURES[path]})" for path in missing)
        return warn("jobset-crd-lacks-fields", subject, f"it is old: it lacks {what}", APPLY)
    return ok("jobset-crd-ok", subject, f"has all fields of {release.name}")


def check_controllers(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check the controllers' Deployments; that their webhooks answer is shown by the dry run."""
    wanted = CONTROLLERS if release.jobset.queue else CONTROLLERS[:1]
    answer = snapshot.listed(DEPLOYMENTS)
    if not answer.found:
        return [unchecked("controller", f"controller {name}", answer) for name in wanted]
    return [_controller(name, answer.items) for name in wanted]


def _controller(name: str, deployments: list[Object]) -> Finding:
    subject = f"controller {name}"
    found = [
        item
        for item in deployments
        if (item["metadata"].get("labels") or {}).get(NAME_LABEL) == name
        and "manager" in item["metadata"]["name"]
    ]
    if not found:
        return ok("controller-external", subject, "has no Deployment here: managed elsewhere")
    ready = [item for item in found if (item.get("status") or {}).get("readyReplicas")]
    metadata = found[0]["metadata"]
    if not ready:
        what = f"Deployment {metadata['name']} in {metadata['namespace']}"
        remedy = f"kubectl -n {metadata['namespace']} describe deployment {metadata['name']}"
        return fail("controller-not-ready", subject, f"{what} has no ready pod", remedy)
    return ok("controller-ok", subject, f"ready, {_image_tag(ready[0])}")


def _image_tag(deployment: Object) -> str:
    """Return name and tag of the first container's image."""
    image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    return image.rpartition("/")[2].partition("@")[0]


def kind_schema(document: Object, kind: str) -> Object | None:
    """Return the schema of a kind in an OpenAPI v3 document; None when it has none."""
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for known in schema.get("x-kubernetes-group-version-kind") or []:
            if known.get("kind") == kind:
                found: Object = schema
                return found
    return None


def has_field(document: Object, schema: Object, path: str) -> bool:
    """Return whether a schema has a field, such as `spec.replicatedJobs[].dependsOn`.

    >>> has_field({}, {"properties": {"a": {"items": {"properties": {"b": {}}}}}}, "a[].b")
    True
    """
    for word in path.split("."):
        name = word.removesuffix("[]")
        schema = _resolved(document, schema)
        if _is_open(schema):
            return True
        if name not in (schema.get("properties") or {}):
            return False
        schema = schema["properties"][name]
        if word.endswith("[]"):
            schema = _resolved(document, schema).get("items") or {}
    return True


def dropped_fields(document: Object, schema: Object, value: Any) -> list[str]:
    """Return the fields of a value that the API server would drop, as paths.

    >>> dropped_fields({}, {"properties": {"a": {"type": "string"}}}, {"a": "x", "b": 1})
    ['b']
    """
    return list(dict.fromkeys(_dropped(document, schema, value, "")))


def _dropped(document: Object, schema: Object, value: Any, path: str) -> Iterator[str]:
    schema = _resolved(document, schema)
    if isinstance(value, list):
        for item in value:
            yield from _dropped(document, schema.get("items") or {}, item, f"{path}[]")
    if not isinstance(value, dict) or _is_open(schema):
        return
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name, item in value.items():
        place = f"{path}.{name}".lstrip(".")
        if name in properties:
            yield from _dropped(document, properties[name], item, place)
        elif isinstance(others, dict):
            yield from _dropped(document, others, item, place)
        elif not others:
            yield place


def _resolved(document: Object, schema: Object) -> Object:
    reference = schema.get("$ref")
    parts = schema.get("allOf") or []
    if reference is None and len(parts) == 1:
        return _resolved(document, parts[0])
    if reference is None:
        return schema
    name = str(reference).rpartition("/")[2]
    return _resolved(document, document["components"]["schemas"][name])


def _is_open(schema: Object) -> bool:
    """Return whether the API server keeps any field."""
    typed = schema.get("properties") or schema.get("additionalProperties")
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) or not typed
