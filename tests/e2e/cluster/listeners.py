"""Which programs listen on all addresses of this machine, read from /proc (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Protocol = Literal["tcp", "udp"]
TABLES: tuple[tuple[Protocol, str], ...] = (
    ("tcp", "tcp"),
    ("tcp", "tcp6"),
    ("udp", "udp"),
    ("udp", "udp6"),
)
LISTEN, UNCONNECTED = "0A", "07"
"""States of a TCP socket that listens, and of a UDP socket without a peer."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """A socket that takes a port on every address, ours too."""

    protocol: Protocol
    port: int
    inode: str


def parse(protocol: Protocol, table: str) -> list[Listener]:
    """Return the sockets of a /proc/net table that are bound to no address in particular.

    >>> row = "0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1"
    >>> parse("tcp", "sl local_address ..." + chr(10) + row)
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


def everywhere() -> list[Listener]:
    """Return the sockets of this machine that listen on all addresses."""
    found = []
    for protocol, name in TABLES:
        file = Path("/proc/net") / name
        if file.exists():  # no tcp6 where IPv6 is off
            found += parse(protocol, file.read_text(encoding="ascii"))
    return found


def holder(inode: str) -> str:
    """Return "name (process N)" of the program that holds a socket."""
    for link in _descriptors():
        try:
            target = str(link.readlink())
        except OSError:  # closed, or ended, since it was listed
            continue
        if re.fullmatch(rf"socket:\[{inode}\]", target):
            process = link.parents[1]
            name = (process / "comm").read_text(encoding="utf-8").strip()
            return f"{name} (process {process.name})"
    return "a program that this user can't see"


def _descriptors() -> Iterable[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield from (process / "fd").iterdir()
        except OSError:
            continue
