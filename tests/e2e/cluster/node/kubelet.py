"""Configuration and command line of a node's kubelet, and its fake devices."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.cluster import kubectl
from tests.e2e.cluster.layout import DOMAIN, RACK_LABEL, Layout, Node
from tests.e2e.cluster.node import cgroups, containerd
from tests.e2e.cluster.supervise import Program

HEALTH_PORT = 10248


def config(layout: Layout, node: Node) -> dict[str, Any]:
    """Return the KubeletConfiguration.

    It enforces no limits and evicts almost nothing: each node reports the whole machine, which
    other processes use too. ``oomScoreAdj`` is 0, since a lower value needs CAP_SYS_RESOURCE.
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
        "featureGates": {"ImageVolume": True},
        "healthzBindAddress": str(node.address),
        "imageGCHighThresholdPercent": 100,
        "oomScoreAdj": 0,
        "resolvConf": str(node.folder / "resolv.conf"),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def files(layout: Layout, node: Node) -> dict[Path, str]:
    """Return the text of a kubelet's files by path.

    A restarted kubelet removes devices without a plugin, unless a file in ``device-plugins`` shows
    that one may register again. Pods with ``dnsPolicy: Default`` get the cluster's DNS server too.
    """
    return {
        _config_file(node): json.dumps(config(layout, node), indent=1) + "\n",
        node.folder / "resolv.conf": f"nameserver {layout.gateway}\n",
        node.folder / "lib" / "kubelet" / "device-plugins" / "fake": "",
    }


def program(layout: Layout, node: Node) -> Program:
    argv = (
        layout.bin / "kubelet",
        f"--config={_config_file(node)}",
        f"--kubeconfig={layout.kubeconfig_of(node.name)}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        f"--node-labels={RACK_LABEL}={node.rack}",
    )
    ready = f"http://{node.address}:{HEALTH_PORT}/healthz"
    return Program(name=f"{node.name}-kubelet", argv=argv, ready=ready)


def add_devices(layout: Layout, node: Node) -> None:
    """Wait until a node is registered, then add its fake devices."""
    kubectl.run(layout, "wait", "--for=create", f"node/{node.name}", "--timeout=120s")
    kubectl.set_fake_devices(layout, node.name)


def _config_file(node: Node) -> Path:
    return node.folder / "kubelet.json"
