"""Queues of the benchmark: one flavor for fake nodes with a topology, one for the real nodes."""

from typing import Any

from tests.e2e.bench.kwok import TAINT
from tests.e2e.cluster.layout import RACK_LABEL, Layout

API = "kueue.x-k8s.io/v1beta2"
NAMESPACE = "bench"
COVERED = ("cpu", "memory", "nvidia.com/gpu")


def objects(gpus: int) -> list[dict[str, Any]]:
    """Return namespace, topology, flavor, cluster queue and local queue; ``gpus`` is the quota."""
    limits = {"cpu": "1M", "memory": "1Ei", "nvidia.com/gpu": str(gpus)}
    quota = [{"name": name, "nominalQuota": limits[name]} for name in COVERED]
    levels = [{"nodeLabel": RACK_LABEL}, {"nodeLabel": "kubernetes.io/hostname"}]
    tolerations = [{"key": TAINT, "operator": "Equal", "value": "fake", "effect": "NoSchedule"}]
    flavor = {"nodeLabels": {"type": "kwok"}, "topologyName": "fake", "tolerations": tolerations}
    group = {"coveredResources": list(COVERED), "flavors": [{"name": "fake", "resources": quota}]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        item("Topology", "fake", {"levels": levels}),
        item("ResourceFlavor", "fake", flavor),
        item("ClusterQueue", "fake", {"namespaceSelector": {}, "resourceGroups": [group]}),
        item("LocalQueue", "fake", {"clusterQueue": "fake"}, NAMESPACE),
    ]


def real(layout: Layout) -> list[dict[str, Any]]:
    limits = {"cpu": "1k", "memory": "1Ti", "nvidia.com/gpu": str(8 * layout.size)}
    quota = [{"name": name, "nominalQuota": limits[name]} for name in COVERED]
    group = {"coveredResources": list(COVERED), "flavors": [{"name": "real", "resources": quota}]}
    return [
        item("ResourceFlavor", "real", {}),
        item("ClusterQueue", "real", {"namespaceSelector": {}, "resourceGroups": [group]}),
        item("LocalQueue", "real", {"clusterQueue": "real"}, NAMESPACE),
    ]


def item(
    kind: str, name: str, spec: dict[str, Any], namespace: str | None = None
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}
