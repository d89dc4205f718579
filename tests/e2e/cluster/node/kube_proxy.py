"""kube-proxy of one node: Services by rules of iptables, in the node's own network namespace."""

from __future__ import annotations

from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.processes import credentials as access
from tests.e2e.cluster.programs import Program

HEALTH = 10256


def program(layout: Layout, node: Node) -> Program:
    """Return kube-proxy; what it would set of conntrack belongs to the whole machine.

    By default it waits a second between two changes, in which a new Service refuses.
    """
    argv = (
        layout.bin / "kube-proxy",
        f"--kubeconfig={access.kubeconfig(layout, 'kube-proxy')}",
        f"--hostname-override={node.name}",
        f"--healthz-bind-address={node.address}:{HEALTH}",
        "--proxy-mode=iptables",
        "--iptables-min-sync-period=100ms",
        "--oom-score-adj=0",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    )
    ready = f"http://{node.address}:{HEALTH}/healthz"
    return Program(name=f"{node.name}-kube-proxy", argv=argv, ready=ready)
