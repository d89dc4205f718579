"""Faults of a cluster: how each is planted in a healthy one, and its expected finding."""

from collections.abc import Callable

from tests.scripts.doctor.healthy import BLOCK, HOST, named, node, secret
from tests.scripts.doctor.plant import There, add, change, drop, status

RDMA = "rdma/hca_shared_devices_a"
HELM = {"owner": "helm", "status": "deployed"}
GROUP = "spec/resourceGroups/0"
TAINT = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
DEAD = named("Deployment", "jobset-controller-manager")
DEAD["metadata"] |= {"namespace": "jobset-system", "labels": {"app.kubernetes.io/name": "jobset"}}
SMALL = {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}, "status": {"used": {}}}
DRAIN, ONCE, PULL = "HoldAndDrain", "ReadWriteOnce", "image.pullSecrets"
NOT_TAKEN = ("ClusterQueue gpu", "cluster-queue-namespace", "namespace team")
QUOTA_SMALL = ("quota for node", "quota-too-small")
NODES_FEW = ("nodes for node", "nodes-too-few")

Fault = tuple[Callable[[There], None], tuple[str, ...], str, str, str]


def fault(plant: Callable[[There], None], subject: str, id: str, fact: str = "") -> Fault:
    """Return how a fault is planted, with which --set, and the finding that names a fact."""
    return plant, (), subject, id, fact


def asked(sets: str, subject: str, id: str, fact: str = "") -> Fault:
    return (lambda there: None), (sets,), subject, id, fact


def queue(path: str, value: object) -> Callable[[There], None]:
    return change("ClusterQueue", path, value)


def claim(path: str, value: object) -> Callable[[There], None]:
    return change("PersistentVolumeClaim", path, value)


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
        queue("spec/stopPolicy", "HoldAndDrain"), "ClusterQueue gpu", "cluster-queue-stopped", DRAIN
    ),
    "namespace not taken": fault(
        queue("spec/namespaceSelector", {"matchLabels": {"team": "x"}}), *NOT_TAKEN
    ),
    "no namespace taken": fault(queue("spec/namespaceSelector", None), *NOT_TAKEN),
    "no priority": asked("kueue.priorityClass=urgent", "priority class urgent", "priority-missing"),
    "uncovered": fault(
        queue(f"{GROUP}/coveredResources", ["cpu", "memory", "nvidia.com/gpu"]),
        f"quota {RDMA}",
        "quota-uncovered",
    ),
    "too little quota": fault(
        queue(f"{GROUP}/flavors/0/resources/2/nominalQuota", "8"),
        *QUOTA_SMALL,
        "nvidia.com/gpu 8 of 16",
    ),
    "flavor's taint": fault(
        change("ResourceFlavor", "spec/nodeTaints", TAINT), *QUOTA_SMALL, "taint gpu=yes:NoSchedule"
    ),
    "key is no level": asked(
        "kueue.topology.key=rack", "topology rack", "topology-level-missing", BLOCK
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
    "racks too small": (
        add(node("host-3", "rack-2"), node("host-4", "rack-2")),
        ("kueue.topology.mode=required", "nodes=4"),
        "topology domain",
        "topology-domain-too-small",
        "2 of 4 pods",
    ),
    "too few nodes": fault(drop("Node"), *NODES_FEW, "1 of 2 pods on 1 node"),
    "tainted node": fault(
        change("Node", "spec/taints", TAINT), *NODES_FEW, "taint gpu=yes:NoSchedule"
    ),
    "cordoned node": fault(change("Node", "spec/unschedulable", True), *NODES_FEW, "not ready"),
    "no RDMA": fault(
        change("Node", "status/allocatable", HOST | {RDMA: "0"}), *NODES_FEW, f"{RDMA} 0 of 1"
    ),
    "wrong nodeSelector": asked("nodeSelector.pool=a100", *NODES_FEW, "nodeSelector"),
    "no claim": fault(drop("PersistentVolumeClaim"), "claim training", "claim-missing"),
    "narrow claim": fault(
        claim("status/accessModes", [ONCE]), "claim training", "claim-not-shared", ONCE
    ),
    "unbound claim": fault(
        claim("status/phase", "Pending"), "claim training", "claim-unbound", "Pending"
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
    "no hub token": asked(
        "secrets.hf.existingSecret=hub", "secret hub", "secret-missing", "env HF_TOKEN"
    ),
    "no pull secret": asked(f"{PULL}={{registry}}", "secret registry", "pull-secret-missing", PULL),
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
