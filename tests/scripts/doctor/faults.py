"""The faults of a cluster: how each is planted in a healthy one, and what must be said of it."""

from __future__ import annotations

from collections.abc import Callable

from tests.scripts.doctor.plant import There, add, change, drop, status
from tests.scripts.doctor.world import HOST, named, node, secret

RDMA = "rdma/hca_shared_devices_a"
HELM = {"owner": "helm", "status": "deployed"}
GROUP = "spec/resourceGroups/0"
TAINT = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
DEAD = {
    "kind": "Deployment",
    "metadata": {
        "name": "jobset-controller-manager",
        "namespace": "jobset-system",
        "labels": {"app.kubernetes.io/name": "jobset"},
    },
}
SMALL = {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}, "status": {"used": {}}}

FAULTS: dict[str, tuple[Callable[[There], None], tuple[str, ...], str, str]] = {
    # name: (plant, --set, subject, part of what is found)
    "no queue": (drop("LocalQueue"), (), "queue gpu", "no LocalQueue of this name"),
    "queue stopped": (
        change("LocalQueue", "spec/stopPolicy", "Hold"),
        (),
        "queue gpu",
        "is stopped",
    ),
    "queue not active": (
        status("LocalQueue", "ClusterQueueDoesNotExist", "no cluster queue"),
        (),
        "queue gpu",
        "is not active: no cluster queue",
    ),
    "no cluster queue": (drop("ClusterQueue"), (), "ClusterQueue gpu", "does not exist"),
    "cluster queue stopped": (
        change("ClusterQueue", "spec/stopPolicy", "HoldAndDrain"),
        (),
        "ClusterQueue gpu",
        "stopPolicy HoldAndDrain",
    ),
    "namespace not taken": (
        change("ClusterQueue", "spec/namespaceSelector", {"matchLabels": {"team": "x"}}),
        (),
        "ClusterQueue gpu",
        "does not take namespace team",
    ),
    "no namespace taken": (
        change("ClusterQueue", "spec/namespaceSelector", None),
        (),
        "ClusterQueue gpu",
        "does not take namespace team",
    ),
    "no priority": (
        lambda there: None,
        ("kueue.priorityClass=urgent",),
        "priority class urgent",
        "does not exist",
    ),
    "uncovered": (
        change("ClusterQueue", f"{GROUP}/coveredResources", ["cpu", "memory", "nvidia.com/gpu"]),
        (),
        "quota rdma/hca_shared_devices_a",
        "no quota for it",
    ),
    "too little quota": (
        change("ClusterQueue", f"{GROUP}/flavors/0/resources/2/nominalQuota", "8"),
        (),
        "quota for node",
        "nvidia.com/gpu 8 of 16",
    ),
    "flavor's taint": (
        change("ResourceFlavor", "spec/nodeTaints", TAINT),
        (),
        "quota for node",
        "taint gpu=yes:NoSchedule is not tolerated",
    ),
    "key is no level": (
        lambda there: None,
        ("kueue.topology.key=rack",),
        "topology rack",
        "no level of the queue's Topology",
    ),
    "no topology": (
        change("ResourceFlavor", "spec/topologyName", None),
        (),
        "topology",
        "no flavor of the queue has a Topology",
    ),
    "topology gone": (drop("Topology"), (), "topology racks", "does not exist"),
    "nodes without labels": (
        change("Node", "metadata/labels", {"kubernetes.io/os": "linux"}),
        (),
        "topology labels",
        "room for 1 of 2 pods",
    ),
    "racks too small": (
        lambda there: there.extend([node("host-3", "rack-2"), node("host-4", "rack-2")]),
        ("kueue.topology.mode=required", "nodes=4"),
        "topology domain",
        "room for 2 of 4 pods",
    ),
    "too few nodes": (drop("Node"), (), "nodes for node", "room for 1 of 2 pods on 1 nodes"),
    "tainted node": (
        change("Node", "spec/taints", TAINT),
        (),
        "nodes for node",
        "taint gpu=yes:NoSchedule",
    ),
    "cordoned node": (
        change("Node", "spec/unschedulable", True),
        (),
        "nodes for node",
        "not ready",
    ),
    "no RDMA": (
        change("Node", "status/allocatable", HOST | {RDMA: "0"}),
        (),
        "nodes for node",
        f"{RDMA} 0 of 1",
    ),
    "wrong nodeSelector": (
        lambda there: None,
        ("nodeSelector.pool=a100",),
        "nodes for node",
        "not chosen by nodeSelector",
    ),
    "no claim": (drop("PersistentVolumeClaim"), (), "claim training", "does not exist"),
    "narrow claim": (
        change("PersistentVolumeClaim", "status/accessModes", ["ReadWriteOnce"]),
        (),
        "claim training",
        "is ReadWriteOnce, and 2 pods",
    ),
    "unbound claim": (
        change("PersistentVolumeClaim", "status/phase", "Pending"),
        (),
        "claim training",
        "is Pending",
    ),
    "no secret": (drop("Secret"), (), "secret preferences-git", "does not exist"),
    "no key": (
        change("Secret", "data", {"password": "filled"}),
        (),
        "secret preferences-git",
        "has no key token (volume code-secret); it has password",
    ),
    "empty key": (change("Secret", "data/token", ""), (), "secret preferences-git", "is empty"),
    "no hub token": (
        lambda there: None,
        ("secrets.hf.existingSecret=hub",),
        "secret hub",
        "does not exist (env HF_TOKEN)",
    ),
    "no pull secret": (
        lambda there: None,
        ("image.pullSecrets={registry}",),
        "secret registry",
        "does not exist (image.pullSecrets)",
    ),
    "no account": (drop("ServiceAccount"), (), "service account default", "does not exist"),
    "name in use": (
        add(secret("sh.helm.release.v1.dpo.v1")),
        (),
        "run dpo",
        "Helm has a release of this name here (deployed)",
    ),
    "left over": (add(named("JobSet", "dpo")), (), "run dpo", "jobsets/dpo already"),
    "dead controller": (add(DEAD), (), "controller jobset", "has no ready pod"),
    "small quota": (
        add(named("ResourceQuota", "team", **SMALL)),
        (),
        "ResourceQuota team",
        "the run needs 16",
    ),
}
