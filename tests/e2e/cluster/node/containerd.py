"""containerd of one node: its configuration and that of the pods' network, and its command line."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tests.e2e.cluster import programs
from tests.e2e.cluster.layout import Layout, Node

PLUGINS = "/usr/lib/cni"
"""Where Debian's containernetworking-plugins are."""
PAUSE = "localhost/megatron-dpo-pause:1"
"""The image of a pod's sandbox."""
SOCKET = "/run/containerd/containerd.sock"
"""As the node sees it."""
CRI = 'plugins."io.containerd.grpc.v1.cri"'


def config(node: Node) -> str:
    """Return containerd's configuration; its folders are the usual ones, each node has its own.

    Where a process may not lower its OOM score (no CAP_SYS_RESOURCE), no pod would start without
    ``restrict_oom_score_adj``. A profile of AppArmor would stay in the kernel.
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
    """Return the CNI configuration: a cable from each pod to the node, which routes.

    Not a bridge: what crosses one is only seen by the rules of kube-proxy where the kernel has
    br_netfilter. Leases are in /run: a node that had its power cut has no pods.
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
    """Return what a node's containerd reads."""
    return {
        _config_file(node): config(node),
        node.folder / "cni" / "pods.conflist": pod_network(node),
    }


def argv(node: Node) -> tuple[str | Path, ...]:
    """Return containerd's command line."""
    return ("containerd", "--config", _config_file(node))


def wait(layout: Layout, node: Node, first: int) -> None:
    """Return when it answers, to those in the namespaces of process ``first``.

    Raises:
        Problem: it ended, or does not answer in time.
    """

    def answers() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(f"/proc/{first}/root{SOCKET}") == 0

    programs.until(layout, f"{node.name}-containerd", "answering", answers)


def _config_file(node: Node) -> Path:
    return node.folder / "containerd.toml"
