"""Networks and ports of the cluster that are already in use on this machine.

Listening sockets are read from /proc (proc(5)).
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Literal

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import coredns, kubernetes, managers

Protocol = Literal["tcp", "udp"]
TABLES: tuple[tuple[Protocol, str], ...] = (
    ("tcp", "tcp"),
    ("tcp", "tcp6"),
    ("udp", "udp"),
    ("udp", "udp6"),
)
LISTEN, UNCONNECTED = "0A", "07"
"""State of a listening TCP socket, and of a UDP socket without a peer."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    protocol: Protocol
    port: int
    inode: str


def find(layout: Layout) -> list[str]:
    networks = taken_networks(layout, _ip("address"), _ip("-4", "route"))
    return [*networks, *taken_ports(listeners())]


def taken_networks(
    layout: Layout, addresses: Iterable[Mapping[str, Any]], routes: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return a line per overlapping interface or route, given as ``ip -json`` prints them."""
    faults = []
    used: list[tuple[str, IPv4Network]] = []
    for link in addresses:
        if link.get("ifname") == layout.bridge:
            faults.append(
                f"bridge {layout.bridge} exists, of the cluster in"
                f" {link.get('ifalias', 'another checkout')};"
                f" run `make cluster-down` there, or `ip link delete {layout.bridge}`"
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
    ours = (layout.network, layout.services)
    for who, network in used:
        if any(network.overlaps(own) for own in ours) and layout.bridge not in who:
            faults.append(
                f"{who} has {network}, which the cluster needs ({ours[0]}, {ours[1]});"
                " stop what uses it (another cluster, a VPN), then retry"
            )
    return faults


def taken_ports(found: Iterable[Listener]) -> list[str]:
    """Return a line per port of the cluster that a program is bound to on all addresses."""
    tcp = {coredns.PORT, coredns.READY_PORT, *kubernetes.PORTS}
    tcp |= {*managers.WEBHOOK_PORTS.values(), *managers.HEALTH_PORTS.values()}
    wanted = {"tcp": tcp, "udp": {coredns.PORT}}
    taken = {(it.protocol, it.port): it for it in found if it.port in wanted[it.protocol]}
    return [
        f"{protocol} port {port} is taken on all addresses by {owner(it.inode)};"
        " stop it, or bind it to a specific address"
        for (protocol, port), it in sorted(taken.items())
    ]


def listeners_in(protocol: Protocol, table: str) -> list[Listener]:
    """Return the sockets in a /proc/net table that are bound to all addresses.

    >>> row = "0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1"
    >>> listeners_in("tcp", "sl local_address ..." + chr(10) + row)
    [Listener(protocol='tcp', port=6443, inode='4711')]
    """
    found = []
    for line in table.splitlines()[1:]:
        words = line.split()
        address, _, port = words[1].partition(":")
        state = LISTEN if protocol == "tcp" else UNCONNECTED
        if words[3] == state and not address.strip("0"):
            found.append(Listener(protocol=protocol, port=int(port, 16), inode=words[9]))
    return found


def listeners() -> list[Listener]:
    """Return the sockets of this machine that are bound to all addresses."""
    found = []
    for protocol, name in TABLES:
        file = Path("/proc/net") / name
        if file.exists():  # tcp6 is missing if IPv6 is off
            found += listeners_in(protocol, file.read_text(encoding="ascii"))
    return found


def owner(inode: str) -> str:
    """Return "name (process N)" of the process that owns a socket."""
    for link in _descriptors():
        try:
            target = str(link.readlink())
        except OSError:  # closed since it was listed
            continue
        if re.fullmatch(rf"socket:\[{inode}\]", target):
            process = link.parents[1]
            name = (process / "comm").read_text(encoding="utf-8").strip()
            return f"{name} (process {process.name})"
    return "a process that this user cannot see"


def _ip(*what: str) -> list[dict[str, Any]]:
    if shutil.which("ip") is None:
        return []  # requirements.missing_programs reports it
    argv = ["ip", "-json", *what]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    content: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return content


def _descriptors() -> Iterable[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield from (process / "fd").iterdir()
        except OSError:
            continue
