"""Read from a cluster all that the checks of a release need."""

from collections.abc import Iterator

from scripts.doctor import api as kinds
from scripts.doctor.api import JOBSETS, NO_ANSWER, Answer, Api, Kind, Object
from scripts.doctor.control_plane import CONTROLLERS, NAME_LABEL
from scripts.doctor.permissions import needed_permissions
from scripts.doctor.references import config_maps, inline_drivers, pull_secrets, secrets
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import Release, ReplicatedJob

LISTS = (
    kinds.NODES, kinds.DEVICE_CLASSES, kinds.CLASSES, kinds.CLAIMS, kinds.QUOTAS, kinds.POLICIES,
)  # fmt: skip
QUEUE_LISTS = (
    kinds.LOCAL_QUEUES, kinds.CLUSTER_QUEUES, kinds.FLAVORS, kinds.TOPOLOGIES, kinds.PRIORITIES,
    kinds.COHORTS,
)  # fmt: skip
KUEUE_CONFIG = ("kueue-system", "kueue-manager-config")
"""Namespace and name of Kueue's configuration in its manifests and chart."""


def gather(api: Api, release: Release) -> Snapshot:
    """Send all requests; none of them changes the cluster."""
    version, groups = api.get("/version"), api.get("/apis")
    namespace = api.namespace
    if not (version.found and groups.found):
        return Snapshot(
            namespace=namespace, version=version, groups=groups, schema=NO_ANSWER, jobset=NO_ANSWER
        )
    jobset, queue = release.jobset, bool(release.jobset.queue)
    permissions = needed_permissions(
        claim=bool(release.claims),
        queue=queue,
        account=bool(release.of_kind("ServiceAccount")),
        policy=bool(release.of_kind("NetworkPolicy")),
        role=bool(release.of_kind("Role")),
    )
    reviews = kinds.REVIEWS.path("")
    return Snapshot(
        namespace=namespace,
        version=version,
        groups=groups,
        schema=api.get(f"/openapi/v3/apis/{JOBSETS.group}/{JOBSETS.version}"),
        lists=_lists(api, release),
        objects={
            (kind.plural, name): _without_values(kind, api.get(kind.path(namespace, name)))
            for kind, name in _singles(api, release)
        },
        kueue_config=api.get(kinds.CONFIG_MAPS.path(*KUEUE_CONFIG)) if queue else NO_ANSWER,
        pods={
            job.name: api.create(kinds.PODS.path(namespace), _pod(release, job))
            for job in jobset.jobs
        },
        jobset=api.create(JOBSETS.path(namespace), jobset.manifest),
        permissions={
            each: api.create(reviews, each.review(namespace), dry=False) for each in permissions
        },
    )


def _pod(release: Release, job: ReplicatedJob) -> Object:
    """Return a pod as the Job controller would create it, with a name of its own."""
    name = f"{release.name}-doctor"
    metadata = {"name": name, "labels": job.labels, "annotations": job.annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": job.pod}


def _lists(api: Api, release: Release) -> dict[str, Answer]:
    wanted = (*LISTS, *(QUEUE_LISTS if release.jobset.queue else ()))
    found = {kind.plural: api.get(kind.path(api.namespace)) for kind in wanted}
    controllers = {"labelSelector": f"{NAME_LABEL} in ({', '.join(CONTROLLERS)})"}
    found |= {"deployments": api.get(kinds.DEPLOYMENTS.path(""), **controllers)}
    records = api.get(
        kinds.SECRETS.path(api.namespace), labelSelector=f"owner=helm,name={release.name}"
    )
    return found | {"secrets": _without_values(kinds.SECRETS, records)}


def _singles(api: Api, release: Release) -> Iterator[tuple[Kind, str]]:
    yield kinds.NAMESPACES, api.namespace
    yield JOBSETS, release.name
    yield kinds.SERVICES, release.name
    for name in {job.pod.get("serviceAccountName") or "default" for job in release.jobset.jobs}:
        yield kinds.ACCOUNTS, name
    for reference in {*secrets(release), *pull_secrets(release)}:
        yield kinds.SECRETS, reference.name
    for reference in config_maps(release):
        yield kinds.CONFIG_MAPS, reference.name
    for name in inline_drivers(release):
        yield kinds.DRIVERS, name
    for name in release.of_kind("ConfigMap"):
        yield kinds.CONFIG_MAPS, name


def _without_values(kind: Kind, answer: Answer) -> Answer:
    """Return an answer without the values of Secrets: only whether each is empty is kept."""
    if kind is not kinds.SECRETS or not answer.found:
        return answer
    if "items" in answer.content:
        items = [_without_data(item) for item in answer.items]
        return Answer(status=answer.status, content={"items": items})
    return Answer(status=answer.status, content=_without_data(answer.content))


def _without_data(secret: Object) -> Object:
    data = {key: "filled" if value else "" for key, value in (secret.get("data") or {}).items()}
    metadata = {key: secret["metadata"].get(key) for key in ("name", "labels")}
    return {"metadata": metadata, "type": secret.get("type"), "data": data}
