"""Files, addresses, names and node labels of the cluster.

A checkout has one cluster, or several with different numbers. It writes below ``.tools/cluster``
only, and listens on its own bridge only, so that its ports conflict with no other program.
"""

import os
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from launchers.config.workspace import Below
from scripts.helm import ROOT
from tests.e2e.cluster.versions import minor, pinned

DOMAIN = "cluster.local"
NUMBER = "E2E_CLUSTER"
"""Environment variable: the number of the cluster that commands and tests mean, 1 by default."""
RACK_LABEL = "cloud.provider.com/topology-block"
FAKE_DEVICES = {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "8"}
"""Extended resources of each node, as the shipped values request them; no such hardware exists."""


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    rack: str
    address: IPv4Address
    pods: IPv4Network
    folder: Path
    """Holds the files that are mounted over the machine's own in the node's namespaces."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Files, addresses and ports of one cluster; creates nothing."""

    home: Path = ROOT / ".tools" / "cluster"
    size: int = 3
    """Number of nodes: two for a gang of two pods, one spare for the loss of a node."""
    number: int = field(default_factory=lambda: int(os.environ.get(NUMBER, "1")))
    """Clusters with different ones run at once; they share the programs, and nothing else."""
    kubernetes: str = field(default_factory=lambda: os.environ.get("E2E_KUBERNETES", ""))
    """Version of the control plane; empty is the pinned one."""

    bin = Below("home", "bin")

    @property
    def control_plane(self) -> Path:
        """Return the folder of API server, controller manager, scheduler and kubectl.

        Kubelets keep the pinned version, as in an upgrade: newer ones need containerd 2 and
        cgroup v2. Kubernetes supports kubelets up to three minors older than the API server.

        >>> Layout(kubernetes="1.37.2").control_plane.name, Layout(kubernetes="").control_plane.name
        ('kubernetes-1.37', 'bin')
        """
        wanted = minor(self.kubernetes)
        is_other = wanted not in ("", minor(pinned("kubernetes")))
        return self.home / f"kubernetes-{wanted}" if is_other else self.bin

    @property
    def bridge(self) -> str:
        return f"mdpo{self.number - 1}"

    @property
    def network(self) -> IPv4Network:
        return IPv4Network(f"10.{200 + self.number}.0.0/16")

    @property
    def services(self) -> IPv4Network:
        """Return the addresses of Services; the first one is the API server's."""
        return IPv4Network(f"10.{95 + self.number}.0.0/16")

    @property
    def run(self) -> Path:
        """Return the folder of the running cluster; ``down`` removes it."""
        return self.home / f"run{self._suffix}"

    @property
    def logs(self) -> Path:
        return self.home / f"logs{self._suffix}"

    @property
    def _suffix(self) -> str:
        return f"-{self.number}" if self.number > 1 else ""

    pki = Below("run", "pki")
    shared = Below("run", "shared")
    """Folder behind the storage class ``shared``, the same one on all nodes."""
    kubeconfig = Below("run", "kubeconfig")

    def kubeconfig_of(self, user: str) -> Path:
        return self.run / "kubeconfigs" / f"{user}.kubeconfig"

    tokens = Below("run", "tokens.csv")
    """File of the API server's ``--token-auth-file``."""

    @property
    def gateway(self) -> IPv4Address:
        """Return the bridge's address: API server, DNS and webhooks listen there."""
        return next(self.network.hosts())

    @property
    def api(self) -> str:
        return f"https://{self.gateway}:6443"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes: two per rack, a /24 of pod addresses per node.

        >>> [(it.name, it.rack, str(it.address), str(it.pods)) for it in Layout(size=3).nodes][2:]
        [('node-3', 'rack-2', '10.201.0.13', '10.201.3.0/24')]
        """
        subnets = list(self.network.subnets(new_prefix=24))
        return tuple(
            Node(
                name=f"node-{number}",
                rack=f"rack-{(number + 1) // 2}",
                address=subnets[0][10 + number],
                pods=subnets[number],
                folder=self.run / "nodes" / f"node-{number}",
            )
            for number in range(1, self.size + 1)
        )
