"""A healthy cluster for values/a100-2node.yaml as plain objects, and the `Snapshot` of them."""

import copy
from collections.abc import Iterable, Mapping
from functools import cache, reduce
from typing import Any

import yaml

from launchers.config.gpu_models import GPU_PRODUCT
from scripts.doctor.api import Answer
from scripts.doctor.permissions import needed_permissions
from scripts.doctor.snapshot import Snapshot
from scripts.helm import ROOT, template
from scripts.manifest import Release, parse_release

Object = dict[str, Any]
A100 = ROOT / "values" / "a100-2node.yaml"
QUEUES = ROOT / "values" / "kueue"
TEAM = "team"
BLOCK = "cloud.provider.com/topology-block"
HOST = {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "1k"}
PLURALS = {
    "Node": "nodes",
    "Namespace": "namespaces",
    "LocalQueue": "localqueues",
    "ClusterQueue": "clusterqueues",
    "ResourceFlavor": "resourceflavors",
    "Topology": "topologies",
    "Cohort": "cohorts",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "StorageClass": "storageclasses",
    "DeviceClass": "deviceclasses",
    "CSIDriver": "csidrivers",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ResourceQuota": "resourcequotas",
    "NetworkPolicy": "networkpolicies",
    "Deployment": "deployments",
    "ConfigMap": "configmaps",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "JobSet": "jobsets",
}


@cache
def release(*sets: str) -> Release:
    """The shipped values as the chart renders them, with a pinned image."""
    pinned = f"image.digest=sha256:{'0' * 64}"
    return parse_release(template("dpo", [A100], [pinned, *sets]))


def named(kind: str, name: str, **fields: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name}, **fields}


def node(name: str, rack: str = "rack-1", **allocatable: str) -> Object:
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, BLOCK: rack}
    labels[GPU_PRODUCT] = "NVIDIA-A100-SXM4-80GB"
    ready = {"type": "Ready", "status": "True"}
    made = named("Node", name, status={"allocatable": HOST | allocatable, "conditions": [ready]})
    made["metadata"]["labels"] = labels
    return made


def secret(name: str, *keys: str, **fields: Any) -> Object:
    return named("Secret", name, data=dict.fromkeys(keys, "filled"), **fields)


def objects() -> list[Object]:
    """Objects of the healthy cluster: the sample queues, two hosts, claim and Secret."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(QUEUES.glob("*.yaml"))]
    plain = {"Namespace": TEAM, "ServiceAccount": "default", "StorageClass": "nfs"}
    modes = {"accessModes": ["ReadWriteMany"]}
    bound = {"spec": modes, "status": {"phase": "Bound", **modes}}
    return [
        *(item for text in texts for item in yaml.safe_load_all(text)),
        node("host-1"),
        node("host-2"),
        secret("preferences-git", "token"),
        *(named(kind, name) for kind, name in plain.items()),
        named("PersistentVolumeClaim", "training", **copy.deepcopy(bound)),
    ]


def found(content: Object) -> Answer:
    return Answer(status=200, content=content)


def forbidden(what: str) -> Answer:
    text = f'{what} is forbidden: User "eve" cannot list resource "{what}"'
    return Answer(status=403, content={"message": text})


def schema_of(value: Any) -> Object:
    """The schema that knows just the fields of a value."""
    if isinstance(value, dict):
        return {"properties": {name: schema_of(item) for name, item in value.items()}}
    if isinstance(value, list):
        return {"items": reduce(_both, map(schema_of, value), Object())}
    return {"type": "string"}


def _both(one: Object, other: Object) -> Object:
    merged = dict(one)
    for key, value in other.items():
        merged[key] = _both(merged[key], value) if isinstance(merged.get(key), dict) else value
    return merged


def document(schema: Object) -> Answer:
    known = [{"group": "jobset.x-k8s.io", "kind": "JobSet", "version": "v1alpha2"}]
    named_schema = {**schema, "x-kubernetes-group-version-kind": known}
    return found({"components": {"schemas": {"JobSet": named_schema}}})


def healthy_schema(of: Release) -> Object:
    content = dict(of.jobset.manifest["spec"])
    jobs = [{**content["replicatedJobs"][0], "dependsOn": []}, *content["replicatedJobs"]]
    return schema_of({"spec": {**content, "replicatedJobs": jobs}})


def groups(served: Mapping[str, str]) -> Answer:
    items = [{"name": k, "versions": [{"version": v}]} for k, v in served.items()]
    return found({"groups": items})


def snapshot(of: Release, there: Iterable[Object] | None = None, **fields: Any) -> Snapshot:
    """The cluster with these objects; `fields` replace those of the snapshot."""
    lists: dict[str, list[Object]] = {plural: [] for plural in (*PLURALS.values(), "secrets")}
    singles: dict[tuple[str, str], Answer] = {}
    for item in objects() if there is None else there:
        if item["kind"] == "Secret" and "owner" not in item["metadata"].get("labels", {}):
            singles["secrets", item["metadata"]["name"]] = found(item)
        elif item["kind"] == "Secret":
            lists["secrets"].append(item)
        else:
            lists[PLURALS[item["kind"]]].append(item)
    base: dict[str, Any] = {
        "namespace": TEAM,
        "version": found({"gitVersion": "v1.34.4"}),
        "groups": groups({"jobset.x-k8s.io": "v1alpha2", "kueue.x-k8s.io": "v1beta2"}),
        "schema": document(healthy_schema(of)),
        "lists": {plural: found({"items": items}) for plural, items in lists.items()},
        "objects": singles,
        "pods": {each.name: found({"spec": each.pod}) for each in of.jobset.jobs},
        "jobset": found({"spec": {"suspend": True}}),
        "permissions": {
            each: found({"status": {"allowed": True}})
            for each in needed_permissions(claim=bool(of.claims), queue=bool(of.jobset.queue))
        },
    }
    return Snapshot(**{**base, **fields})
