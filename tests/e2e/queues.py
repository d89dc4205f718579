"""The sample queues of values/kueue/, with a ClusterQueue per namespace."""

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from scripts.helm import ROOT
from tests.e2e.api import Object
from tests.e2e.kubectl import Kubectl
from tests.e2e.merge import merge
from tests.e2e.space import Space

SAMPLES = ROOT / "values" / "kueue"
QUEUE = "gpu"
"""LocalQueue of the shipped values."""
OWN = ("ClusterQueue", "LocalQueue")
"""Kinds created per namespace; the others are shared by the cluster."""


def samples() -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for file in sorted(SAMPLES.glob("*.yaml")):
        for item in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            found.setdefault(item["kind"], []).append(item)
    return found


def shared(kubectl: Kubectl) -> None:
    """Create the shared objects: topology, flavor, priorities. They are not removed."""
    kubectl.apply(item for kind, items in samples().items() if kind not in OWN for item in items)


def make(
    space: Space,
    quota: Mapping[str, str | None] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> None:
    """Create the namespace's queue.

    ``quota`` by resource overrides the sample's, None removes it; ``spec`` overrides fields.
    """
    kinds = samples()
    sample = copy.deepcopy(kinds["ClusterQueue"][0])
    sample["metadata"]["name"] = space.name
    sample["spec"] = merge(sample["spec"], spec or {})
    for group in sample["spec"]["resourceGroups"]:
        group["coveredResources"], group["flavors"] = _limited(group, quota or {})
    local = copy.deepcopy(kinds["LocalQueue"][0])
    local["metadata"] = {"name": QUEUE, "namespace": space.name}
    local["spec"]["clusterQueue"] = space.name
    space.kubectl.apply([sample, local])
    space.queues.append(f"clusterqueues.kueue.x-k8s.io/{space.name}")


def _limited(group: Object, quota: Mapping[str, str | None]) -> tuple[list[str], list[Object]]:
    """Return a resource group's covered resources and flavors with other quotas."""
    dropped = {name for name, amount in quota.items() if amount is None}
    covered = [name for name in group["coveredResources"] if name not in dropped]
    flavors = []
    for flavor in group["flavors"]:
        resources = [
            {**entry, "nominalQuota": quota.get(entry["name"]) or entry["nominalQuota"]}
            for entry in flavor["resources"]
            if entry["name"] in covered
        ]
        flavors.append({**flavor, "resources": resources})
    return covered, flavors
