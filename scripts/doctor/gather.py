"""What to ask the cluster for a release."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.doctor import controllers, kinds
from scripts.doctor.answer import Answer, Object
from scripts.doctor.api import Api
from scripts.doctor.kinds import JOBSETS, Kind
from scripts.doctor.references import config_maps, pull_secrets, secrets
from scripts.doctor.release import PodSet, Release
from scripts.doctor.right import rights
from scripts.doctor.seen import Seen

LISTS = (kinds.NODES, kinds.CLASSES, kinds.CLAIMS, kinds.QUOTAS)
QUEUE_LISTS = (
    kinds.LOCAL_QUEUES,
    kinds.CLUSTER_QUEUES,
    kinds.FLAVORS,
    kinds.TOPOLOGIES,
    kinds.PRIORITIES,
    kinds.COHORTS,
)
KUEUE_CONFIG = ("kueue-system", "kueue-manager-config")
"""Where Kueue's manifests and chart keep its configuration, unless installed elsewhere."""


def gather(api: Api, release: Release) -> Seen:
    """Ask everything; no question changes the cluster."""
    version, groups = api.get("/version"), api.get("/apis")
    nothing = Answer(status=0)
    if not (version.found and groups.found):
        return Seen(
            namespace=api.namespace, version=version, groups=groups, schema=nothing, jobset=nothing
        )
    wanted = rights(claim=bool(release.claims), queue=bool(release.queue))
    reviews = kinds.REVIEWS.path("")
    return Seen(
        namespace=api.namespace,
        version=version,
        groups=groups,
        schema=api.get(f"/openapi/v3/apis/{JOBSETS.group}/{JOBSETS.version}"),
        lists=_lists(api, release),
        objects={
            (kind.plural, name): _bare(kind, api.get(kind.path(api.namespace, name)))
            for kind, name in _singles(api, release)
        },
        kueue=api.get(kinds.CONFIG_MAPS.path(*KUEUE_CONFIG)) if release.queue else nothing,
        pods={
            each.name: api.create(kinds.PODS.path(api.namespace), pod(release, each))
            for each in release.pod_sets
        },
        jobset=api.create(JOBSETS.path(api.namespace), release.jobset),
        rights={
            right: api.create(reviews, right.review(api.namespace), dry=False) for right in wanted
        },
    )


def pod(release: Release, pod_set: PodSet) -> Object:
    """A pod as the Job controller would make it, under a name of its own."""
    metadata = {**(pod_set.template.get("metadata") or {}), "name": f"{release.name}-doctor"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_set.spec}


def _lists(api: Api, release: Release) -> dict[str, Answer]:
    wanted = (*LISTS, *(QUEUE_LISTS if release.queue else ()))
    found = {kind.plural: api.get(kind.path(api.namespace)) for kind in wanted}
    managers = {"labelSelector": f"{controllers.NAME} in ({', '.join(controllers.MANAGERS)})"}
    found |= {"deployments": api.get(kinds.DEPLOYMENTS.path(""), **managers)}
    records = api.get(
        kinds.SECRETS.path(api.namespace), labelSelector=f"owner=helm,name={release.name}"
    )
    return found | {"secrets": _bare(kinds.SECRETS, records)}


def _singles(api: Api, release: Release) -> Iterator[tuple[Kind, str]]:
    yield kinds.NAMESPACES, api.namespace
    yield JOBSETS, release.jobset["metadata"]["name"]
    yield kinds.SERVICES, release.jobset["metadata"]["name"]
    for name in {each.spec.get("serviceAccountName") or "default" for each in release.pod_sets}:
        yield kinds.ACCOUNTS, name
    for reference in {*secrets(release), *pull_secrets(release)}:
        yield kinds.SECRETS, reference.name
    for reference in config_maps(release):
        yield kinds.CONFIG_MAPS, reference.name
    for name in release.own("ConfigMap"):
        yield kinds.CONFIG_MAPS, name


def _bare(kind: Kind, answer: Answer) -> Answer:
    """The answer without a Secret's values: only whether each is empty goes further."""
    if kind is not kinds.SECRETS or not answer.found:
        return answer
    if "items" in answer.content:
        items = [_stripped(item) for item in answer.items]
        return Answer(status=answer.status, content={"items": items})
    return Answer(status=answer.status, content=_stripped(answer.content))


def _stripped(secret: Object) -> Object:
    data = {key: "filled" if value else "" for key, value in (secret.get("data") or {}).items()}
    metadata = {key: secret["metadata"].get(key) for key in ("name", "labels")}
    return {"metadata": metadata, "type": secret.get("type"), "data": data}
