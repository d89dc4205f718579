"""Nodes that could hold the pods, busy or not: selectors, taints, resources, GPU model.

Sources: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal

from launchers.config.gpu_models import GPU_MODELS, GPU_PRODUCT, by_product
from launchers.units import count_text
from launchers.upstream.versions import parse_version
from scripts.doctor.api import DEVICE_CLASSES, NODES, Object
from scripts.doctor.findings import Finding, fail, names, ok, unchecked, warn
from scripts.doctor.snapshot import Snapshot
from scripts.manifest import Release, ReplicatedJob
from scripts.quantity import format_amount, parse_amounts

Labels = Mapping[str, str]
HARD_EFFECTS = ("NoSchedule", "NoExecute")

_DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
_DRIVERS = {"12": 525, "13": 580}
"""First driver of each CUDA release (NVIDIA's CUDA Compatibility)."""
_WHOLE = "choose nodes of whole GPUs with nodeSelector: NCCL connects no MIG instances, and other "
_WHOLE += "pods take memory and time of a GPU that is shared"
_ARCHITECTURE = "nodeSelector: {kubernetes.io/arch: amd64}, or an image that is built for these"
_DRIVER = "choose nodes with a newer driver, or an image of an older CUDA"


def check_nodes(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check that the nodes could hold all pods of each replicated job."""
    answer = snapshot.listed(NODES)
    if not answer.found:
        return [unchecked("nodes", "nodes", answer)]
    return [_nodes_for(job, answer.items, snapshot) for job in release.jobset.jobs]


def _nodes_for(job: ReplicatedJob, nodes: list[Object], snapshot: Snapshot) -> Finding:
    subject = f"nodes for {job.name}"
    room = {node["metadata"]["name"]: capacity_for(job, node, snapshot) for node in nodes}
    places = sum(room.values())
    if places >= job.count:
        holding = sum(1 for count in room.values() if count)
        found = f"{holding} of {len(nodes)} could hold its {count_text(job.count, 'pod')}"
        return ok("nodes-ok", subject, found)
    full = (node for node in nodes if not room[node["metadata"]["name"]])
    reasons = Counter(obstacle(job, node, snapshot) for node in full)
    why = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common(4))
    pods, asked = count_text(job.count, "pod"), count_text(len(nodes), "node")
    found = f"room for {places} of {pods} on {asked} ({why})"
    remedy = "lower nodes or resources, or correct nodeSelector, affinity and tolerations"
    classes, listed = snapshot.listed(DEVICE_CLASSES), set().union(*map(allocatable, nodes))
    is_open = classes.unknown and bool({*job.requests} - listed)
    return (warn if is_open else fail)("nodes-too-few", subject, found, remedy)


def check_gpu_model(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check `gpuModel` against the product label of the nodes that could hold the gang."""
    model, answer = release.jobset.gpu_model, snapshot.listed(NODES)
    if model not in GPU_MODELS or not answer.found:
        return []
    fitting = [node for node in answer.items if capacity_for(release.gang, node, snapshot)]
    if not fitting:
        return []
    wanted = {name.replace(" ", "-") for name in GPU_MODELS[model].smi}
    products = {labels(node)[GPU_PRODUCT] for node in fitting if GPU_PRODUCT in labels(node)}
    subject = "GPU model"
    if not products:
        found = f"not checked, because no node has the label {GPU_PRODUCT}"
        remedy = "the preflight in the pods checks the GPUs themselves"
        return [warn("gpu-model-unchecked", subject, found, remedy)]
    others = {each for each in products if by_product(each) is not GPU_MODELS[model]}
    if others == products:
        found = f"nodes have {names(others)}, not {names(wanted)}"
        remedy = "set gpuModel to the nodes' GPU, or choose nodes with nodeSelector"
        return [fail("gpu-model-other", subject, found, remedy)]
    if others:
        remedy = f"nodeSelector: {{{GPU_PRODUCT}: {sorted(products - others)[0]}}}"
        return [warn("gpu-model-mixed", subject, f"some nodes have {names(others)}", remedy)]
    return [ok("gpu-model-ok", subject, names(products))]


def check_hosts(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check by labels that the nodes that could hold the gang have whole GPUs for its image.

    Sources: NVIDIA's GPU feature discovery; NVIDIA's CUDA Compatibility, by which a package of the
    image or the host may serve an older driver, so that it is a warning.
    """
    processes = release.gang.count * int(release.gang.env.get("DPO_GPUS_PER_NODE", "0"))
    if not processes:
        return []
    nodes = [e for e in snapshot.listed(NODES).items if capacity_for(release.gang, e, snapshot)]
    cuda = re.search(r"cuda([0-9]+)", str(release.gang.container["image"]))
    oldest = _DRIVERS.get(cuda[1] if cuda else "", 0)
    found = []
    for id, remedy, wrong in (
        ("gpu-slices", _WHOLE, [_slices(labels(each)) for each in nodes]),
        ("node-architecture", _ARCHITECTURE, [_architecture(labels(each)) for each in nodes]),
        ("node-driver", _DRIVER, [_old_driver(labels(each), oldest) for each in nodes]),
    ):
        if any(wrong):
            act = fail if processes > 1 and all("-MIG-" in each for each in wrong) else warn
            seen = names({each for each in wrong if each})
            text = f"{len(wrong) - wrong.count('')} of {count_text(len(wrong), 'node')}: {seen}"
            found.append(act(id, "GPUs of nodes", text, remedy))
    return found


def _slices(having: Labels) -> str:
    """Return by what a node's GPUs are divided or shared; empty if a pod gets whole ones.

    >>> _slices({"nvidia.com/gpu.product": "NVIDIA-H200-MIG-1g.18gb"}), _slices({})
    ('NVIDIA-H200-MIG-1g.18gb', '')
    """
    product, shared = having.get(GPU_PRODUCT, ""), having.get("nvidia.com/gpu.sharing-strategy", "")
    is_shared = shared not in ("", "none") and having.get("nvidia.com/gpu.replicas", "1") != "1"
    return product if re.search("-MIG-|-SHARED$", product) else shared if is_shared else ""


def _architecture(having: Labels) -> str:
    architecture = having.get("kubernetes.io/arch", "amd64")
    return "" if architecture == "amd64" else architecture


def _old_driver(having: Labels, least: int) -> str:
    major = next((having[label] for label in _DRIVER_LABELS if label in having), "")
    return f"driver {major}" if major.isdecimal() and int(major) < least else ""


def check_image_volumes(release: Release, snapshot: Snapshot) -> list[Finding]:
    """Check the container runtimes of the nodes that could hold a gang that mounts an image.

    Versions: the release notes of containerd 2.1 and CRI-O 1.31; the kubelet's feature gate
    ImageVolume is on from 1.35.
    """
    answer = snapshot.listed(NODES)
    if not answer.found or not any("image" in each for each in release.gang.pod.get("volumes", ())):
        return []
    fitting = [node for node in answer.items if capacity_for(release.gang, node, snapshot)]
    informed = [node["status"]["nodeInfo"] for node in fitting]
    runtimes = {name for info in informed for name in _named(info)}
    older = {each for each in runtimes if not _mounts_images(each)}
    if not runtimes:
        return []
    subject = "image volume"
    if not older:
        return [ok("image-volume-ok", subject, names(runtimes))]
    found = f"nodes have {names(older)}, which cannot mount the launcher's image"
    remedy = "set launcher.from: chart, or update to Kubernetes 1.35, containerd 2.1, CRI-O 1.31"
    able = [info for info in informed if not older & {*_named(info)}]
    return [(warn if able else fail)("image-volume-runtime", subject, found, remedy)]


def _named(info: Mapping[str, str]) -> tuple[str, str]:
    """Return a node's container runtime and kubelet, each as ``name://version``."""
    return info["containerRuntimeVersion"], f"kubelet://{info['kubeletVersion']}"


def _mounts_images(runtime: str) -> bool:
    """Return whether a runtime mounts images as volumes; one that is not known does.

    >>> _mounts_images("containerd://1.7.28"), _mounts_images("containerd://2.10.0-rc.1")
    (False, True)
    """
    name, _, version = runtime.partition("://")
    least = {"containerd": (2, 1), "cri-o": (1, 31), "kubelet": (1, 35)}.get(name, (0, 0))
    found = parse_version(version.removeprefix("v"))
    return not found or found >= least


def capacity_for(job: ReplicatedJob, node: Object, snapshot: Snapshot) -> int:
    """Return how many pods of a replicated job the node could hold if it were empty."""
    if obstacle(job, node, snapshot):
        return 0
    if job.pod.get("hostNetwork"):
        return 1  # Two pods would listen on the same ports.
    capacity = allocatable(node)
    return min(
        (int(capacity[name] // amount) for name, amount in _counted(job, node, snapshot) if amount),
        default=job.count,
    )


def obstacle(job: ReplicatedJob, node: Object, snapshot: Snapshot) -> str:
    """Return the reason why a node can't hold one pod; empty if it can."""
    spec = node.get("spec") or {}
    if not selects_node(job.pod, node):
        return "not chosen by nodeSelector or affinity"
    taints = untolerated(spec.get("taints") or [], job.pod.get("tolerations") or [])
    if taints:
        return f"taint {taints[0]} is not tolerated"
    if not is_ready(node):
        return "not ready"
    return _shortage(_counted(job, node, snapshot), node)


def _counted(job: ReplicatedJob, node: Object, snapshot: Snapshot) -> list[tuple[str, Decimal]]:
    """Return the requests that a node counts: what only DRA gives is in ResourceSlices."""
    known = allocatable(node)
    return [(k, n) for k, n in job.requests.items() if k in known or not snapshot.by_class(k)]


def is_ready(node: Object) -> bool:
    """Return whether the node is ready and schedulable."""
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not (node.get("spec") or {}).get("unschedulable")


def allocatable(node: Object) -> dict[str, Decimal]:
    """Return the resources that all pods of a node can request together."""
    return parse_amounts((node.get("status") or {}).get("allocatable"))


def _shortage(requests: Iterable[tuple[str, Decimal]], node: Object) -> str:
    capacity = allocatable(node)
    for name, amount in requests:
        available = capacity.get(name, Decimal())
        if available < amount:
            return f"{name} {format_amount(name, available)} of {format_amount(name, amount)}"
    return ""


def labels(item: Object) -> Labels:
    """Return the labels of an object."""
    return item["metadata"].get("labels") or {}


def matches(requirement: Object, having: Labels) -> bool:
    """Return whether labels meet one requirement of a selector.

    >>> matches({"key": "a", "operator": "In", "values": ["1"]}, {"a": "1"})
    True
    >>> matches({"key": "a", "operator": "NotIn", "values": ["1"]}, {})
    True
    """
    value = having.get(requirement["key"])
    wanted = requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and int(value) < int(wanted[0])
    return False


def selects(selector: Object | None, having: Labels) -> bool:
    """Return whether a label selector selects labels; None selects nothing, an empty one all."""
    if selector is None:
        return False
    exact = selector.get("matchLabels") or {}
    return all(having.get(key) == value for key, value in exact.items()) and all(
        matches(each, having) for each in selector.get("matchExpressions") or []
    )


def selects_node(pod: Object, node: Object) -> bool:
    """Return whether nodeSelector and the required node affinity of a pod allow a node."""
    having = labels(node)
    if any(having.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(matches(each, having) for each in term.get("matchExpressions") or [])
        and all(matches(each, fields) for each in term.get("matchFields") or [])
        for term in required["nodeSelectorTerms"]
        if term
    )


def untolerated(taints: Iterable[Object], tolerations: Iterable[Object]) -> list[str]:
    """Return the taints that no toleration matches, as `key=value:effect`."""
    known = list(tolerations)
    return [
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        for taint in taints
        if taint["effect"] in HARD_EFFECTS and not any(tolerates(each, taint) for each in known)
    ]


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether a toleration matches a taint.

    >>> tolerates({"operator": "Exists"}, {"key": "gpu", "effect": "NoSchedule"})
    True
    """
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (
        (toleration.get("value") or "") == (taint.get("value") or "")
    )
