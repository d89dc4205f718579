"""Versions, node images and configuration of the kind cluster; runs nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster.layout import RACK_LABEL, Layout
from tests.e2e.cluster.versions import minor, pinned

NAME = "megatron-dpo"
IMAGES: Mapping[str, str] = {
    "1.34": "v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
    "1.35": "v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0",
    "1.36": "v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
    "1.37": "v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
}
"""Node images of kind v0.33.0 by Kubernetes minor version, from its release notes."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions to install, without the ``v``."""

    kubernetes: str
    """Major and minor version."""
    jobset: str
    kueue: str

    @property
    def image(self) -> str:
        return f"kindest/node:{IMAGES[self.kubernetes]}"


def versions(environment: Mapping[str, str]) -> Versions:
    """Return the pinned versions, or those in E2E_KUBERNETES, E2E_JOBSET and E2E_KUEUE.

    >>> versions({"E2E_KUBERNETES": "1.35", "E2E_JOBSET": "0.10.1", "E2E_KUEUE": "v0.17.1"})
    Versions(kubernetes='1.35', jobset='0.10.1', kueue='0.17.1')
    """
    found = {
        tool: environment.get(f"E2E_{tool.upper()}", pinned(tool)).removeprefix("v")
        for tool in ("kubernetes", "jobset", "kueue")
    }
    release = minor(found["kubernetes"])
    if release not in IMAGES:
        raise Problem(f"no kind node image for Kubernetes {release}; known: {', '.join(IMAGES)}")
    return Versions(kubernetes=release, jobset=found["jobset"], kueue=found["kueue"])


def workers(layout: Layout) -> tuple[str, ...]:
    """Return the names of kind's worker nodes, which are also their containers' names.

    >>> workers(Layout(size=3))
    ('megatron-dpo-worker', 'megatron-dpo-worker2', 'megatron-dpo-worker3')
    """
    return tuple(f"{NAME}-worker{n if n > 1 else ''}" for n in range(1, layout.size + 1))


def config(layout: Layout, image: str, read_only: Sequence[Path]) -> dict[str, Any]:
    """Return kind's configuration; host folders are mounted at the same path in the nodes.

    These are the folder of the storage class, and the folders ``read_only``.
    """
    mounts = [
        {"hostPath": str(path), "containerPath": str(path), "readOnly": path in read_only}
        for path in (layout.shared, *read_only)
    ]
    nodes = [
        {"role": "worker", "image": image, "labels": {RACK_LABEL: node.rack}, "extraMounts": mounts}
        for node in layout.nodes
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "featureGates": {"ImageVolume": True},
        "nodes": [{"role": "control-plane", "image": image}, *nodes],
    }


def helm_install(name: str, version: str) -> tuple[str, ...]:
    """Return the arguments of `helm` that install ``jobset`` or ``kueue``.

    Use the published chart: the one in the Go module names a staging image.
    """
    return (
        "install",
        name,
        f"oci://registry.k8s.io/{name}/charts/{name}",
        "--version",
        version,
        "--namespace",
        f"{name}-system",
        "--create-namespace",
        "--wait",
        "--timeout",
        "5m",
    )
