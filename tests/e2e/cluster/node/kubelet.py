"""kubelet of one node: its configuration and command line, and the devices it says to have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.cluster import kubectl
from tests.e2e.cluster.layout import DOMAIN, Layout, Node
from tests.e2e.cluster.node import cgroups, containerd
from tests.e2e.cluster.processes import credentials as access
from tests.e2e.cluster.programs import Program

RACK = "cloud.provider.com/topology-block"
DEVICES = {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "8"}
"""What the shipped values ask for; there are none."""
HEALTH = 10248


def config(layout: Layout, node: Node) -> dict[str, Any]:
    """Return the KubeletConfiguration.

    Nothing is limited or evicted for the machine's sake: it is full of others' processes, and each
    node takes all of it for its own. ``oomScoreAdj`` stays: less than that is not allowed to all.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.group(layout, node),
        "clusterDNS": [str(layout.gateway)],
        "clusterDomain": DOMAIN,
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "enforceNodeAllocatable": [],
        "evictionHard": dict.fromkeys(("nodefs.available", "imagefs.available"), "1%"),
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzBindAddress": str(node.address),
        "imageGCHighThresholdPercent": 100,
        "oomScoreAdj": 0,
        "resolvConf": str(node.folder / "resolv.conf"),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def files(layout: Layout, node: Node) -> dict[Path, str]:
    """Return what a node's kubelet reads.

    A kubelet that registers again takes unknown devices away, unless a plugin for them may come
    back: a file where plugins register says so. Pods that don't ask for the cluster's names
    (`dnsPolicy: Default`) get its server too, there is no other.
    """
    return {
        _config_file(node): json.dumps(config(layout, node), indent=1) + "\n",
        node.folder / "resolv.conf": f"nameserver {layout.gateway}\n",
        node.folder / "lib" / "kubelet" / "device-plugins" / "fake": "",
    }


def program(layout: Layout, node: Node) -> Program:
    """Return kubelet."""
    argv = (
        layout.bin / "kubelet",
        f"--config={_config_file(node)}",
        f"--kubeconfig={access.kubeconfig(layout, node.name)}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--node-labels={RACK}={node.rack}",
    )
    ready = f"http://{node.address}:{HEALTH}/healthz"
    return Program(name=f"{node.name}-kubelet", argv=argv, ready=ready)


def give_devices(layout: Layout, node: Node) -> None:
    """Give a node its devices, once it is registered.

    Raises:
        Problem: it does not register.
    """
    kubectl.run(layout, "wait", "--for=create", f"node/{node.name}", "--timeout=120s")
    patch = json.dumps({"status": {"capacity": DEVICES, "allocatable": DEVICES}})
    words = ("patch", "node", node.name, "--subresource=status", "--type=merge")
    kubectl.run(layout, *words, f"--patch={patch}")


def _config_file(node: Node) -> Path:
    return node.folder / "kubelet.json"
