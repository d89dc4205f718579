"""What the kind cluster is made of: versions, node images, its configuration. Nothing acts here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node.kubelet import RACK
from tests.e2e.cluster.processes import manifests

NAME = "megatron-dpo"
OLDEST = (0, 30)
"""The first kind whose node images are those of a Kubernetes that is tested."""
IMAGES: Mapping[str, str] = {
    "1.33": "v1.33.7@sha256:d26ef333bdb2cbe9862a0f7c3803ecc7b4303d8cea8e814b481b09949d353040",
    "1.34": "v1.34.3@sha256:08497ee19eace7b4b5348db5c6a1591d7752b164530a36f855cb0f2bdcbadd48",
    "1.35": "v1.35.0@sha256:452d707d4862f52530247495d180205e029056831160e22870e37e3f6c1ac31f",
}
"""Node images of kind v0.31.0 by Kubernetes' minor, from its release notes."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions of what is installed, without a ``v``."""

    kubernetes: str
    """Major and minor."""
    jobset: str
    kueue: str

    @property
    def image(self) -> str:
        """Return the image of the nodes."""
        return f"kindest/node:{IMAGES[self.kubernetes]}"


def versions(environment: Mapping[str, str]) -> Versions:
    """Return the versions that the cluster of processes has, or those of the environment.

    Raises:
        Problem: no node image is known for this Kubernetes.

    >>> versions({"E2E_KUBERNETES": "1.33", "E2E_JOBSET": "0.10.1", "E2E_KUEUE": "v0.17.1"})
    Versions(kubernetes='1.33', jobset='0.10.1', kueue='0.17.1')
    """
    go_mod = (manifests.TOOLS / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    pinned = {
        "KUBERNETES": manifests.required(go_mod, "k8s.io/kubernetes"),
        "JOBSET": manifests.version("jobset"),
        "KUEUE": manifests.version("kueue"),
    }
    found = {
        name: environment.get(f"E2E_{name}", version).removeprefix("v")
        for name, version in pinned.items()
    }
    minor = ".".join(found["KUBERNETES"].split(".")[:2])
    if minor not in IMAGES:
        raise Problem(f"no kind node image for Kubernetes {minor}; there are: {', '.join(IMAGES)}")
    return Versions(kubernetes=minor, jobset=found["JOBSET"], kueue=found["KUEUE"])


def workers(layout: Layout) -> tuple[str, ...]:
    """Return the names that kind gives to worker nodes and their containers.

    >>> workers(Layout(size=3))
    ('megatron-dpo-worker', 'megatron-dpo-worker2', 'megatron-dpo-worker3')
    """
    return tuple(f"{NAME}-worker{n if n > 1 else ''}" for n in range(1, layout.size + 1))


def config(layout: Layout, image: str, seen: Sequence[Path]) -> dict[str, Any]:
    """Return kind's configuration: what pods mount of the host is at the host's own path.

    ``seen`` is mounted read-only, beside the folder of the storage class.
    """
    mounts = [
        {"hostPath": str(path), "containerPath": str(path), "readOnly": path in seen}
        for path in (layout.shared, *seen)
    ]
    nodes = [
        {"role": "worker", "image": image, "labels": {RACK: node.rack}, "extraMounts": mounts}
        for node in layout.nodes
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane", "image": image}, *nodes],
    }


def chart(name: str, version: str) -> tuple[str, ...]:
    """Return the arguments of `helm` that install a release of ``jobset`` or ``kueue``.

    The chart in its module names a staging image; only the published one names the release's.
    """
    return (
        *("install", name, f"oci://registry.k8s.io/{name}/charts/{name}", "--version", version),
        *("--namespace", f"{name}-system", "--create-namespace", "--wait", "--timeout", "5m"),
    )


def old(text: str) -> bool:
    """Return whether `kind version` tells of a kind that is too old.

    >>> old("kind v0.31.0 go1.26.8 linux/amd64"), old("kind v0.29.0 go1.24 linux/amd64")
    (False, True)
    """
    found = re.match(r"kind v(\d+)\.(\d+)\.", text)
    return found is None or (int(found[1]), int(found[2])) < OLDEST
