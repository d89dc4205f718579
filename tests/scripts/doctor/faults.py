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


def fault(
    plant: Callable[[There], None],
    subject: str,
    id: str,
    fact: str = "",
    sets: tuple[str, ...] = (),
) -> Fault:
    """Return how a fault is planted, with which --set, and the finding that names a fact."""
    return plant, sets, subject, id, fact


FAULTS: dict[str, Fault] = {
    "no queue": fault(drop("LocalQueue"), "queue gpu", "queue-missing"),
    "queue stopped": fault(
        change("LocalQueue", "spec/stopPolicy", "Hold"), "queue gpu", "queue-stopped"
    ),
    "queue not active": fault(
        status("LocalQueue", "ClusterQueueDoesNotExist", "no cluster queue"),
        "queue gpu",
        "queue-inactive",
        "no cluster queue",
    ),
    "no cluster queue": fault(drop("ClusterQueue"), "ClusterQueue gpu", "cluster-queue-missing"),
    "cluster queue stopped": fault(
        change("ClusterQueue", "spec/stopPolicy", "HoldAndDrain"),
        "ClusterQueue gpu",
        "cluster-queue-stopped",
        "HoldAndDrain",
    ),
    "namespace not taken": fault(
        change("ClusterQueue", "spec/namespaceSelector", {"matchLabels": {"team": "x"}}),
        "ClusterQueue gpu",
        "cluster-queue-namespace",
        "namespace team",
    ),
    "no namespace taken": fault(
        change("ClusterQueue", "spec/namespaceSelector", None),
        "ClusterQueue gpu",
        "cluster-queue-namespace",
        "namespace team",
    ),
    "no priority": fault(
        lambda there: None,
        "priority class urgent",
        "priority-missing",
        sets=("kueue.priorityClass=urgent",),
    ),
    "uncovered": fault(
        change("ClusterQueue", f"{GROUP}/coveredResources", ["cpu", "memory", "nvidia.com/gpu"]),
        "quota rdma/hca_shared_devices_a",
        "quota-uncovered",
    ),
    "too little quota": fault(
        change("ClusterQueue", f"{GROUP}/flavors/0/resources/2/nominalQuota", "8"),
        "quota for node",
        "quota-too-small",
        "nvidia.com/gpu 8 of 16",
    ),
    "flavor's taint": fault(
        change("ResourceFlavor", "spec/nodeTaints", TAINT),
        "quota for node",
        "quota-too-small",
        "taint gpu=yes:NoSchedule",
    ),
    "key is no level": fault(
        lambda there: None,
        "topology rack",
        "topology-level-missing",
        "cloud.provider.com/topology-block",
        sets=("kueue.topology.key=rack",),
    ),
    "no topology": fault(
        change("ResourceFlavor", "spec/topologyName", None), "topology", "topology-none"
    ),
    "topology gone": fault(drop("Topology"), "topology racks", "topology-missing"),
    "nodes without labels": fault(
        change("Node", "metadata/labels", {"kubernetes.io/os": "linux"}),
        "topology labels",
        "topology-nodes-too-few",
        "1 of 2 pods",
    ),
    "racks too small": fault(
        lambda there: there.extend([node("host-3", "rack-2"), node("host-4", "rack-2")]),
        "topology domain",
        "topology-domain-too-small",
        "2 of 4 pods",
        sets=("kueue.topology.mode=required", "nodes=4"),
    ),
    "too few nodes": fault(
        drop("Node"), "nodes for node", "nodes-too-few", "1 of 2 pods on 1 nodes"
    ),
    "tainted node": fault(
        change("Node", "spec/taints", TAINT),
        "nodes for node",
        "nodes-too-few",
        "taint gpu=yes:NoSchedule",
    ),
    "cordoned node": fault(
        change("Node", "spec/unschedulable", True), "nodes for node", "nodes-too-few", "not ready"
    ),
    "no RDMA": fault(
        change("Node", "status/allocatable", HOST | {RDMA: "0"}),
        "nodes for node",
        "nodes-too-few",
        f"{RDMA} 0 of 1",
    ),
    "wrong nodeSelector": fault(
        lambda there: None,
        "nodes for node",
        "nodes-too-few",
        "nodeSelector",
        sets=("nodeSelector.pool=a100",),
    ),
    "no claim": fault(drop("PersistentVolumeClaim"), "claim training", "claim-missing"),
    "narrow claim": fault(
        change("PersistentVolumeClaim", "status/accessModes", ["ReadWriteOnce"]),
        "claim training",
        "claim-not-shared",
        "ReadWriteOnce",
    ),
    "unbound claim": fault(
        change("PersistentVolumeClaim", "status/phase", "Pending"),
        "claim training",
        "claim-unbound",
        "Pending",
    ),
    "no secret": fault(drop("Secret"), "secret preferences-git", "secret-missing"),
    "no key": fault(
        change("Secret", "data", {"password": "filled"}),
        "secret preferences-git",
        "secret-key-missing",
        "token (volume code-secret); it has password",
    ),
    "empty key": fault(
        change("Secret", "data/token", ""), "secret preferences-git", "secret-key-empty", "token"
    ),
    "no hub token": fault(
        lambda there: None,
        "secret hub",
        "secret-missing",
        "env HF_TOKEN",
        sets=("secrets.hf.existingSecret=hub",),
    ),
    "no pull secret": fault(
        lambda there: None,
        "secret registry",
        "pull-secret-missing",
        "image.pullSecrets",
        sets=("image.pullSecrets={registry}",),
    ),
    "no account": fault(drop("ServiceAccount"), "service account default", "account-missing"),
    "name in use": fault(
        add(secret("sh.helm.release.v1.dpo.v1")), "run dpo", "release-exists", "deployed"
    ),
    "left over": fault(add(named("JobSet", "dpo")), "run dpo", "name-taken", "jobsets/dpo"),
    "dead controller": fault(
        add(DEAD), "controller jobset", "controller-not-ready", "jobset-controller-manager"
    ),
    "small quota": fault(
        add(named("ResourceQuota", "team", **SMALL)),
        "ResourceQuota team",
        "resource-quota-too-small",
        "needs 16",
    ),
}
"""By name."""
