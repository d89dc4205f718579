"""Where the cluster of processes keeps its files, and which addresses and names it has.

One cluster a checkout. Everything it writes is below ``.tools/cluster``; its addresses are on a
bridge of its own, so that nothing of it listens where another program may.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from scripts.helm import ROOT

DOMAIN = "cluster.local"
SERVICES = IPv4Network("10.96.0.0/16")
"""Addresses of Services; the first one is the API server's."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node: its name, its rack and its addresses."""

    name: str
    rack: str
    address: IPv4Address
    pods: IPv4Network
    folder: Path
    """What lies over its /var/lib, /var/log and /run."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Files, addresses and ports of one cluster; names only, nothing is created here."""

    home: Path = ROOT / ".tools" / "cluster"
    size: int = 3
    """Number of nodes. Two hold a gang of two pods, the third is the spare of a lost one."""
    bridge: str = "mdpo0"
    network: IPv4Network = field(default=IPv4Network("10.201.0.0/16"))

    @property
    def bin(self) -> Path:
        """Return the folder of the built programs."""
        return self.home / "bin"

    @property
    def run(self) -> Path:
        """Return the folder of the running cluster; it goes with ``down``."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """Return the folder of the programs' output; it stays after ``down``."""
        return self.home / "logs"

    @property
    def pki(self) -> Path:
        """Return the folder of the certificates and keys."""
        return self.run / "pki"

    @property
    def shared(self) -> Path:
        """Return the folder behind the storage class ``shared``, the same one on all nodes."""
        return self.run / "shared"

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.run / "kubeconfig"

    @property
    def gateway(self) -> IPv4Address:
        """Return the bridge's address: API server, DNS and webhooks listen there."""
        return next(self.network.hosts())

    @property
    def api(self) -> str:
        """Return the URL of the API server."""
        return f"https://{self.gateway}:6443"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes: two to a rack, the pods' addresses in a /24 of each node's own.

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
