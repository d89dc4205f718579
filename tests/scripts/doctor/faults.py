"""Faults of a cluster: how each is planted in a healthy one, and its expected finding."""

from collections.abc import Callable

from tests.scripts.doctor.healthy import HOST, named, node, secret
from tests.scripts.doctor.plant import There, add, change, drop, status

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

Fault = tuple[Callable[[There], None], tuple[str, ...], str, str, str]

FAULTS: dict[str, Fault] = {
    # name: (plant, --set, subject, id, a fact that the finding names)
    "no queue": (drop("LocalQueue"), (), "queue gpu", "queue-missing", ""),
    "queue stopped": (
        change("LocalQueue", "spec/stopPolicy", "Hold"),
        (),
        "queue gpu",
        "queue-stopped",
        "",
    ),
    "queue not active": (
        status("LocalQueue", "ClusterQueueDoesNotExist", "no cluster queue"),
        (),
        "queue gpu",
        "queue-inactive",
        "no cluster queue",
    ),
    "no cluster queue": (drop("ClusterQueue"), (), "ClusterQueue gpu", "cluster-queue-missing", ""),
    "cluster queue stopped": (
        change("ClusterQueue", "spec/stopPolicy", "HoldAndDrain"),
        (),
        "ClusterQueue gpu",
        "cluster-queue-stopped",
        "HoldAndDrain",
    ),
    "namespace not taken": (
        change("ClusterQueue", "spec/namespaceSelector", {"matchLabels": {"team": "x"}}),
        (),
        "ClusterQueue gpu",
        "cluster-queue-namespace",
        "namespace team",
    ),
    "no namespace taken": (
        change("ClusterQueue", "spec/namespaceSelector", None),
        (),
        "ClusterQueue gpu",
        "cluster-queue-namespace",
        "namespace team",
    ),
    "no priority": (
        lambda there: None,
        ("kueue.priorityClass=urgent",),
        "priority class urgent",
        "priority-missing",
        "",
    ),
    "uncovered": (
        change("ClusterQueue", f"{GROUP}/coveredResources", ["cpu", "memory", "nvidia.com/gpu"]),
        (),
        "quota rdma/hca_shared_devices_a",
        "quota-uncovered",
        "",
    ),
    "too little quota": (
        change("ClusterQueue", f"{GROUP}/flavors/0/resources/2/nominalQuota", "8"),
        (),
        "quota for node",
        "quota-too-small",
        "nvidia.com/gpu 8 of 16",
    ),
    "flavor's taint": (
        change("ResourceFlavor", "spec/nodeTaints", TAINT),
        (),
        "quota for node",
        "quota-too-small",
        "taint gpu=yes:NoSchedule",
    ),
    "key is no level": (
        lambda there: None,
        ("kueue.topology.key=rack",),
        "topology rack",
        "topology-level-missing",
        "cloud.provider.com/topology-block",
    ),
    "no topology": (
        change("ResourceFlavor", "spec/topologyName", None),
        (),
        "topology",
        "topology-none",
        "",
    ),
    "topology gone": (drop("Topology"), (), "topology racks", "topology-missing", ""),
    "nodes without labels": (
        change("Node", "metadata/labels", {"kubernetes.io/os": "linux"}),
        (),
        "topology labels",
        "topology-nodes-too-few",
        "1 of 2 pods",
    ),
    "racks too small": (
        lambda there: there.extend([node("host-3", "rack-2"), node("host-4", "rack-2")]),
        ("kueue.topology.mode=required", "nodes=4"),
        "topology domain",
        "topology-domain-too-small",
        "2 of 4 pods",
    ),
    "too few nodes": (
        drop("Node"),
        (),
        "nodes for node",
        "nodes-too-few",
        "1 of 2 pods on 1 nodes",
    ),
    "tainted node": (
        change("Node", "spec/taints", TAINT),
        (),
        "nodes for node",
        "nodes-too-few",
        "taint gpu=yes:NoSchedule",
    ),
    "cordoned node": (
        change("Node", "spec/unschedulable", True),
        (),
        "nodes for node",
        "nodes-too-few",
        "not ready",
    ),
    "no RDMA": (
        change("Node", "status/allocatable", HOST | {RDMA: "0"}),
        (),
        "nodes for node",
        "nodes-too-few",
        f"{RDMA} 0 of 1",
    ),
    "wrong nodeSelector": (
        lambda there: None,
        ("nodeSelector.pool=a100",),
        "nodes for node",
        "nodes-too-few",
        "nodeSelector",
    ),
    "no claim": (drop("PersistentVolumeClaim"), (), "claim training", "claim-missing", ""),
    "narrow claim": (
        change("PersistentVolumeClaim", "status/accessModes", ["ReadWriteOnce"]),
        (),
        "claim training",
        "claim-not-shared",
        "ReadWriteOnce",
    ),
    "unbound claim": (
        change("PersistentVolumeClaim", "status/phase", "Pending"),
        (),
        "claim training",
        "claim-unbound",
        "Pending",
    ),
    "no secret": (drop("Secret"), (), "secret preferences-git", "secret-missing", ""),
    "no key": (
        change("Secret", "data", {"password": "filled"}),
        (),
        "secret preferences-git",
        "secret-key-missing",
        "token (volume code-secret); it has password",
    ),
    "empty key": (
        change("Secret", "data/token", ""),
        (),
        "secret preferences-git",
        "secret-key-empty",
        "token",
    ),
    "no hub token": (
        lambda there: None,
        ("secrets.hf.existingSecret=hub",),
        "secret hub",
        "secret-missing",
        "env HF_TOKEN",
    ),
    "no pull secret": (
        lambda there: None,
        ("image.pullSecrets={registry}",),
        "secret registry",
        "pull-secret-missing",
        "image.pullSecrets",
    ),
    "no account": (drop("ServiceAccount"), (), "service account default", "account-missing", ""),
    "name in use": (
        add(secret("sh.helm.release.v1.dpo.v1")),
        (),
        "run dpo",
        "release-exists",
        "deployed",
    ),
    "left over": (add(named("JobSet", "dpo")), (), "run dpo", "name-taken", "jobsets/dpo"),
    "dead controller": (
        add(DEAD),
        (),
        "controller jobset",
        "controller-not-ready",
        "jobset-controller-manager",
    ),
    "small quota": (
        add(named("ResourceQuota", "team", **SMALL)),
        (),
        "ResourceQuota team",
        "resource-quota-too-small",
        "needs 16",
    ),
}
