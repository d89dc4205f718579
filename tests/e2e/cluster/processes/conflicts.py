"""Addresses and ports of the cluster that something else on this machine has."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any

from tests.e2e.cluster import listeners
from tests.e2e.cluster.layout import SERVICES, Layout
from tests.e2e.cluster.listeners import Listener
from tests.e2e.cluster.processes import coredns as dns
from tests.e2e.cluster.processes import kubernetes as control_plane
from tests.e2e.cluster.processes import managers as controllers


def find(layout: Layout) -> list[str]:
    """Return a fault for each conflict on this machine."""
    networks = taken_networks(layout, _ip("address"), _ip("-4", "route"))
    return [*networks, *taken_ports(listeners.everywhere())]


def taken_networks(
    layout: Layout, addresses: Iterable[Mapping[str, Any]], routes: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return a fault for each interface or route in the way; both as ``ip -json`` prints them."""
    faults = []
    used: list[tuple[str, IPv4Network]] = []
    for link in addresses:
        if link.get("ifname") == layout.bridge:
            faults.append(
                f"there is a bridge {layout.bridge}, of another checkout's cluster or a dead one;"
                f" run `megatron-dpo cluster down` there, or `ip link delete {layout.bridge}`"
            )
        for info in link["addr_info"]:
            if info["family"] != "inet":
                continue
            network = IPv4Network(f"{info['local']}/{info['prefixlen']}", strict=False)
            used.append((f"interface {link['ifname']}", network))
    for route in routes:
        if route["dst"] != "default":
            where = route.get("dev") or route.get("type", "route")
            used.append((f"a route ({where})", IPv4Network(route["dst"])))
    ours = (layout.network, SERVICES)
    for who, network in used:
        if any(network.overlaps(own) for own in ours) and layout.bridge not in who:
            faults.append(
                f"{who} has {network}, which the cluster needs ({ours[0]}, {ours[1]});"
                " end what uses it (another cluster, a VPN), then try again"
            )
    return faults


def taken_ports(found: Iterable[Listener]) -> list[str]:
    """Return a fault for each port of ours that a program holds on all addresses."""
    tcp = {dns.PORT, dns.READY, *control_plane.PORTS}
    tcp |= {*controllers.HOOKS.values(), *controllers.HEALTH.values()}
    wanted = {"tcp": tcp, "udp": {dns.PORT}}
    taken = {(it.protocol, it.port): it for it in found if it.port in wanted[it.protocol]}
    return [
        f"{protocol} port {port} is taken on all addresses by {listeners.holder(it.inode)};"
        " end it, or bind it to an address of its own"
        for (protocol, port), it in sorted(taken.items())
    ]


def _ip(*what: str) -> list[dict[str, Any]]:
    if shutil.which("ip") is None:
        return []  # missing_programs says so
    argv = ["ip", "-json", *what]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    content: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return content
