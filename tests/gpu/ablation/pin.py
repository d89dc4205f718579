"""CPU cores of a rank: those of its GPU's NUMA node, or an equal share of them.

``bind`` and ``buses`` access the host, the rest is pure. All threads of the process are bound: the
backward pass runs in existing threads of autograd, and a new thread inherits its parent's cores
(sched_setaffinity(2)).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

SYS = Path("/sys")


def cores(text: str) -> set[int]:
    """Parse a list of cores in the kernel's format.

    >>> sorted(cores("0-2,8\\n"))
    [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def near(bus: str, allowed: set[int], sys: Path = SYS) -> set[int]:
    """Return the allowed cores of a GPU's NUMA node; all allowed cores if the node is unknown.

    Args:
        bus: the GPU's PCI address, ``0000:1b:00.0``.
        allowed: cores available to the process.
        sys: root of sysfs.
    """
    try:
        node = int((sys / "bus/pci/devices" / bus.lower() / "numa_node").read_text())
        listed = (sys / f"devices/system/node/node{node}/cpulist").read_text()
    except (OSError, ValueError):  # no such device, or node -1
        return allowed
    return cores(listed) & allowed or allowed


def part(kind: str, rank: int, nodes: Sequence[set[int]]) -> set[int]:
    """Return the cores of a rank.

    Args:
        kind: ``numa`` or ``share``.
        rank: on this host.
        nodes: each rank's cores by its NUMA node.

    >>> [sorted(part("share", rank, [{0, 1, 2, 3}] * 2 + [{8, 9}])) for rank in range(3)]
    [[0, 1], [2, 3], [8, 9]]
    """
    own = nodes[rank]
    if kind == "numa":
        return own
    sharing = [other for other, theirs in enumerate(nodes) if theirs == own]
    size, ordered = len(own) // len(sharing), sorted(own)
    at = sharing.index(rank) * size
    return set(ordered[at : at + size]) or own


def bind(chosen: set[int]) -> None:
    """Bind all threads of this process; ignore threads that have ended."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread.name), chosen)


def buses() -> str:
    """Return the PCI addresses of this host's GPUs in the kernel's format, separated by commas.

    nvidia-smi writes eight digits of the domain, the kernel four.
    """
    query = ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except OSError:
        text = ""
    return ",".join(line.strip()[-12:].lower() for line in text.splitlines())
