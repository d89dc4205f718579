"""The bridge that joins host and nodes, and the routes to the pods behind each node.

Nothing leaves the machine: a node has no default route, and on the host every address of the
cluster that is not there is unreachable. The host forwards and translates nothing. Only routes of
the cluster's own networks and links of its name are touched. All of it is IPv4.
"""

from __future__ import annotations

import socket

from scripts.problem import Problem
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import SERVICES, Layout, Node

BATCH = ("ip", "-batch", "-")


def bridge(layout: Layout) -> str:
    """Return what makes the bridge and the routes, for `ip -batch`.

    The unreachable routes lie under the exact ones: a packet to a pod that is gone, or to a Service
    from the host, ends here instead of leaving by the host's default route.
    """
    name, gateway = layout.bridge, layout.gateway
    lines = [
        f"link add {name} type bridge",
        f"address add {gateway}/24 dev {name}",
        f"link set {name} up",
        *(f"route add unreachable {network}" for network in (layout.network, SERVICES)),
        *(f"route add {it.pods} via {it.address} dev {name}" for it in layout.nodes),
    ]
    return "\n".join(lines) + "\n"


def plug(layout: Layout, node: Node, pid: int) -> str:
    """Return what joins the namespaces of process ``pid`` to the bridge, for `ip -batch`."""
    name = port(layout, node)
    return (
        f"link add {name} type veth peer name eth0 netns {pid}\n"
        f"link set {name} master {layout.bridge} up\n"
    )


def inside(layout: Layout, node: Node) -> str:
    """Return what a node's own network is made of, for `ip -batch` in its namespaces.

    kube-proxy rewrites a Service's address, but a packet of the node itself needs a route before.
    """
    others = [it for it in layout.nodes if it != node]
    lines = [
        "link set lo up",
        f"address add {node.address}/24 dev eth0",
        "link set eth0 up",
        *(f"route add {it.pods} via {it.address}" for it in others),
        f"route add {SERVICES} via {layout.gateway}",
    ]
    return "\n".join(lines) + "\n"


def port(layout: Layout, node: Node) -> str:
    """Return the name of the host's end of a node's cable.

    >>> port(Layout(), Layout().nodes[0])
    'mdpo0-1'
    """
    return f"{layout.bridge}-{node.name.removeprefix('node-')}"


def create(layout: Layout) -> None:
    """Make the bridge and the routes.

    Raises:
        Problem: the kernel refuses, for example since they are there; the message is ip's.
    """
    run(BATCH, text=bridge(layout))


def remove(layout: Layout) -> None:
    """Remove bridge, cables and routes, those that are there."""
    for name in links():
        if name == layout.bridge or name.startswith(f"{layout.bridge}-"):
            unplug(name)
    for network in (layout.network, SERVICES):
        # `flush` is `delete` that finds nothing wrong with nothing.
        run(("ip", "-4", "route", "flush", "exact", str(network), "type", "unreachable"))


def unplug(name: str) -> None:
    """Remove a link if it is there; the kernel itself removes a dead node's, some time later."""
    try:
        if name in links():
            run(("ip", "link", "delete", name))
    except Problem:
        if name in links():
            raise


def links() -> list[str]:
    """Return the names of this network namespace's links."""
    return [name for _, name in socket.if_nameindex()]
