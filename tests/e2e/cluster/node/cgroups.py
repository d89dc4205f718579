"""Create and remove the cgroups of nodes: a kubelet needs its root cgroup in every hierarchy.

cgroup v1 has one hierarchy per controller, v2 a single one. A machine with both is used as v1, but
runc creates groups in v2 as well. v2 alone is untested; controllers that are enabled at its root
remain enabled.
"""

import contextlib
import hashlib
import os
import time
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout, Node

REMOVE_SECONDS = 10.0
"""Time limit for the kernel to release a cgroup whose processes are dead."""


def group(layout: Layout, node: Node) -> str:
    """Return the cgroup of a node, below that of its cluster.

    A kubelet kills unknown processes in its root cgroup, so clusters must not share one.
    """
    digest = hashlib.sha256(str(layout.run).encode()).hexdigest()
    return f"/megatron-dpo-{digest[:8]}/{node.name}"


def hierarchies(mounts: str, kind: str) -> list[Path]:
    """Return the mount points of a file system type, ``cgroup`` (v1) or ``cgroup2``.

    >>> hierarchies("c /sys/fs/cgroup/cpu cgroup rw,cpu 0 0", "cgroup")
    [PosixPath('/sys/fs/cgroup/cpu')]
    """
    lines = [line.split() for line in mounts.splitlines()]
    return [Path(folder) for _, folder, found, *_ in lines if found == kind]


def create(layout: Layout, node: Node) -> None:
    """Create a node's cgroup in every hierarchy that a kubelet uses."""
    mounts = _mounts()
    first, second = hierarchies(mounts, "cgroup"), hierarchies(mounts, "cgroup2")
    try:
        for root in first:
            _create(root, group(layout, node))
        for root in () if first else second:
            _delegate(root, group(layout, node))
    except OSError as error:
        raise Problem(
            f"cannot create a cgroup for {node.name}: {error}; is this a container?"
        ) from None


def remove(layout: Layout, node: Node) -> None:
    """Remove a node's cgroup with all below it, and the cluster's if no node is left."""
    mounts = _mounts()
    for root in (*hierarchies(mounts, "cgroup"), *hierarchies(mounts, "cgroup2")):
        top = root / group(layout, node).lstrip("/")
        for folder, _, _ in os.walk(top, topdown=False):
            _remove(Path(folder))
        with contextlib.suppress(OSError):  # it holds other nodes
            top.parent.rmdir()


def _mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8")


def _create(root: Path, name: str) -> None:
    """Create a v1 cgroup and fill its cpuset: an empty one accepts no process."""
    folder = root
    for part in Path(name).parts[1:]:
        parent, folder = folder, folder / part
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (folder / file).exists():
                (folder / file).write_text((parent / file).read_text(encoding="ascii"))


def _delegate(root: Path, name: str) -> None:
    """Create a v2 cgroup and enable the parents' controllers for it."""
    folder = root
    for part in Path(name).parts[1:]:
        names = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        enabled = " ".join(f"+{name}" for name in names)
        (folder / "cgroup.subtree_control").write_text(enabled, encoding="ascii")
        folder /= part
        folder.mkdir(exist_ok=True)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while folder.exists():
        try:
            folder.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise Problem(f"cannot remove cgroup {folder}: {error}") from None
            time.sleep(0.02)
