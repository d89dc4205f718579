"""The bridge between host and nodes, and the routes to the pods of each node; IPv4 only.

No packet leaves the machine: nodes have no default route, and on the host unassigned addresses of
the cluster are unreachable. The host does no forwarding and no NAT. Only routes of the cluster's
networks and links with its name prefix are changed.
"""

import socket
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.layout import Layout, Node

BATCH = ("ip", "-batch", "-")
LINKS = Path("/sys/class/net")


def bridge(layout: Layout) -> str:
    """Return the `ip -batch` lines that create the bridge and the routes.

    The unreachable routes apply where no more specific one does: a packet to a deleted pod, or from
    the host to a Service, does not leave by the host's default route. The alias names the
    checkout's folder, so that another checkout can determine whether this cluster still runs.
    """
    name, gateway = layout.bridge, layout.gateway
    lines = [
        f"link add {name} type bridge",
        f'link set {name} alias "{layout.home}"',
        f"address add {gateway}/24 dev {name}",
        f"link set {name} up",
        *(f"route add unreachable {network}" for network in (layout.network, layout.services)),
        *(f"route add {it.pods} via {it.address} dev {name}" for it in layout.nodes),
    ]
    return "\n".join(lines) + "\n"


def connect(layout: Layout, node: Node, pid: int) -> str:
    """Return the `ip -batch` lines that link the namespaces of process ``pid`` to the bridge."""
    name = port(layout, node)
    return (
        f"link add {name} type veth peer name eth0 netns {pid}\n"
        f"link set {name} master {layout.bridge} up\n"
    )


def inside(layout: Layout, node: Node) -> str:
    """Return the `ip -batch` lines for a node's own network, run in its namespaces.

    The route to Services: packets of the node itself are routed before kube-proxy rewrites them.
    """
    others = [it for it in layout.nodes if it != node]
    lines = [
        "link set lo up",
        f"address add {node.address}/24 dev eth0",
        "link set eth0 up",
        *(f"route add {it.pods} via {it.address}" for it in others),
        f"route add {layout.services} via {layout.gateway}",
    ]
    return "\n".join(lines) + "\n"


def port(layout: Layout, node: Node) -> str:
    """Return the name of the host's end of a node's veth pair.

    >>> port(Layout(), Layout().nodes[0])
    'mdpo0-1'
    """
    return f"{layout.bridge}-{node.name.removeprefix('node-')}"


def create(layout: Layout) -> None:
    """Create the bridge and the routes."""
    run(BATCH, text=bridge(layout))


def remove(layout: Layout) -> None:
    """Remove those of bridge, links and routes that exist."""
    for name in links():
        if name == layout.bridge or name.startswith(f"{layout.bridge}-"):
            remove_link(name)
    for network in (layout.network, layout.services):
        # Unlike `delete`, `flush` succeeds if there is no such route.
        run(("ip", "-4", "route", "flush", "exact", str(network), "type", "unreachable"))


def owner(layout: Layout) -> Path | None:
    """Return the folder (``Layout.home``) whose cluster made the bridge; None if there is none.

    The alias of a link is in /sys/class/net (Documentation/ABI/testing/sysfs-class-net).
    """
    try:
        text = (LINKS / layout.bridge / "ifalias").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return Path(text) if text else None


def remove_link(name: str) -> None:
    """Remove a link if it exists; the kernel removes a dead node's link some time later."""
    try:
        if name in links():
            run(("ip", "link", "delete", name))
    except Problem:
        if name in links():
            raise


def links() -> list[str]:
    return [name for _, name in socket.if_nameindex()]
