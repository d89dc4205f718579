"""Command line and configuration of a node's containerd, pod network (CNI) included."""

import json
import socket
from pathlib import Path

from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout, Node

PLUGINS = "/usr/lib/cni"
"""Folder of Debian's containernetworking-plugins."""
PAUSE = "localhost/megatron-dpo-pause:1"
"""Sandbox image of pods."""
SOCKET = "/run/containerd/containerd.sock"
"""Path inside the node."""
CRI = 'plugins."io.containerd.grpc.v1.cri"'


def config(node: Node) -> str:
    """Return containerd's configuration; its folders are the default ones, private to the node.

    ``restrict_oom_score_adj``: otherwise no pod starts without CAP_SYS_RESOURCE, which lowering the
    OOM score needs. ``disable_apparmor``: a loaded profile would remain in the kernel.
    """
    return f"""\
version = 2

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[{CRI}]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true

[{CRI}.cni]
  bin_dir = "{PLUGINS}"
  conf_dir = "{node.folder / "cni"}"

[{CRI}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[{CRI}.containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def pod_network(node: Node) -> str:
    """Return the CNI configuration: a point-to-point link from each pod to the node, which routes.

    kube-proxy's rules apply to bridged traffic only if the kernel has br_netfilter, so no bridge is
    used. Leases are in /run, which a power-off clears together with the pods.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": str(node.pods)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    content = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": ipam}]}
    return json.dumps(content, indent=1) + "\n"


def files(node: Node) -> dict[Path, str]:
    return {
        _config_file(node): config(node),
        node.folder / "cni" / "pods.conflist": pod_network(node),
    }


def argv(node: Node) -> tuple[str | Path, ...]:
    return ("containerd", "--config", _config_file(node))


def wait_ready(layout: Layout, node: Node, first: int) -> None:
    """Wait until containerd answers in the namespaces of process ``first``."""

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(f"/proc/{first}/root{SOCKET}") == 0

    supervise.wait_until(layout, f"{node.name}-containerd", "answering", answers)


def _config_file(node: Node) -> Path:
    return node.folder / "containerd.toml"
