"""Command line of a node's kube-proxy; its iptables rules are in the node's network namespace."""

from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.supervise import Program

HEALTH_PORT = 10256


def program(layout: Layout, node: Node) -> Program:
    """Return kube-proxy; its conntrack settings are off, since they apply to the whole machine.

    Its default sync period of 1 s would leave a new Service unreachable for as long.
    """
    argv = (
        layout.bin / "kube-proxy",
        f"--kubeconfig={layout.kubeconfig_of('kube-proxy')}",
        f"--hostname-override={node.name}",
        f"--healthz-bind-address={node.address}:{HEALTH_PORT}",
        "--proxy-mode=iptables",
        "--iptables-min-sync-period=100ms",
        "--oom-score-adj=0",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    )
    ready = f"http://{node.address}:{HEALTH_PORT}/healthz"
    return Program(name=f"{node.name}-kube-proxy", argv=argv, ready=ready)
