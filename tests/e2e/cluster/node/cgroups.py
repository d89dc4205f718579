"""The cgroups of the nodes: kubelet wants its root to be there, in every hierarchy.

Version 1 has a hierarchy for each controller, version 2 one for all; a mixed machine is used as
version 1, but runc makes groups in its version 2 as well. A machine of version 2 alone is untested;
there the controllers that are enabled at the root stay enabled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout, Node

PATIENCE = 10.0
"""Seconds for the kernel to see that the processes of a group are dead."""


def group(layout: Layout, node: Node) -> str:
    """Return the group of a node, below that of the checkout's cluster.

    A kubelet kills what it does not know in its root: no two clusters of a machine share one.
    """
    digest = hashlib.sha256(str(layout.home).encode()).hexdigest()
    return f"/megatron-dpo-{digest[:8]}/{node.name}"


def hierarchies(mounts: str, kind: str) -> list[Path]:
    """Return where hierarchies of a kind, ``cgroup`` (1) or ``cgroup2``, are mounted.

    >>> hierarchies("c /sys/fs/cgroup/cpu cgroup rw,cpu 0 0", "cgroup")
    [PosixPath('/sys/fs/cgroup/cpu')]
    """
    lines = [line.split() for line in mounts.splitlines()]
    return [Path(folder) for _, folder, found, *_ in lines if found == kind]


def create(layout: Layout, node: Node) -> None:
    """Make a node's group, in every hierarchy that a kubelet uses.

    Raises:
        Problem: the kernel refuses.
    """
    mounts = _mounts()
    first, second = hierarchies(mounts, "cgroup"), hierarchies(mounts, "cgroup2")
    try:
        for root in first:
            _create(root, group(layout, node))
        for root in () if first else second:
            _delegate(root, group(layout, node))
    except OSError as error:
        raise Problem(f"no cgroup for {node.name}: {error}; is this a container?") from None


def remove(layout: Layout, node: Node) -> None:
    """Remove a node's group and all below it, and the cluster's when it was the last one.

    Raises:
        Problem: a process is still in it.
    """
    mounts = _mounts()
    for root in (*hierarchies(mounts, "cgroup"), *hierarchies(mounts, "cgroup2")):
        top = root / group(layout, node).lstrip("/")
        for folder, _, _ in os.walk(top, topdown=False):
            _remove(Path(folder))
        with contextlib.suppress(OSError):  # other nodes are in it
            top.parent.rmdir()


def _mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8")


def _create(root: Path, name: str) -> None:
    """Version 1: a new cpuset is empty, and takes no process until it is filled."""
    folder = root
    for part in Path(name).parts[1:]:
        parent, folder = folder, folder / part
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (folder / file).exists():
                (folder / file).write_text((parent / file).read_text(encoding="ascii"))


def _delegate(root: Path, name: str) -> None:
    """Version 2: a group has the controllers that its parent passes on."""
    folder = root
    for part in Path(name).parts[1:]:
        names = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        enabled = " ".join(f"+{name}" for name in names)
        (folder / "cgroup.subtree_control").write_text(enabled, encoding="ascii")
        folder /= part
        folder.mkdir(exist_ok=True)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while folder.exists():
        try:
            folder.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise Problem(f"cgroup {folder} can't be removed: {error}") from None
            time.sleep(0.02)
