"""What must hold before the cluster of processes starts; a fault is one line with its remedy."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import conflicts

FREE = 10 * 10**9
"""Bytes that must be free: image layers, logs, the tests' workspaces."""
PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
"""Debian's package of each program that is not built here."""
BUILT = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
    *("coredns", "jobset", "kueue", "kubelet", "kube-proxy", "pause"),
)
V1 = frozenset({"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"})
V2 = frozenset({"cpu", "cpuset", "memory", "pids"})
HIDDEN = ("/run", "/var/lib", "/var/log", "/proc", "/sys")
"""Folders that a node sees its own version of."""


def refuse(layout: Layout) -> None:
    """Return if the cluster can start.

    Raises:
        Problem: it can't; a line for each reason.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Problem(
            "the cluster of processes needs root on Linux (mounts, networks, cgroups);"
            " run it with sudo, or with --backend kind where a container engine is"
        )
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    faults = [
        *missing_programs(lambda name: shutil.which(name) is not None),
        *not_built(layout),
        *hidden(layout.home),
        *conflicts.find(layout),
        *full(shutil.disk_usage(_existing(layout.home)).free),
        *no_cgroups(mounts, lambda folder: os.access(folder, os.W_OK), _unified_controllers),
    ]
    if faults:
        raise Problem("\n".join(faults))


def missing_programs(found: Callable[[str], bool]) -> list[str]:
    """Return a fault that names the packages to install.

    >>> missing_programs(lambda name: name != "runc")
    ['no runc; run `apt-get install --no-install-recommends runc`, or what your system has for it']
    """
    missing = [name for name in PACKAGES if not found(name)]
    packages = sorted({PACKAGES[name] for name in missing})
    if not missing:
        return []
    command = f"apt-get install --no-install-recommends {' '.join(packages)}"
    return [f"no {', '.join(missing)}; run `{command}`, or what your system has for it"]


def not_built(layout: Layout) -> list[str]:
    """Return a fault if programs of the cluster are not built yet."""
    missing = [name for name in BUILT if not (layout.bin / name).is_file()]
    if not missing:
        return []
    return [f"not built yet: {', '.join(missing)}; run `make cluster`, which builds them (Go)"]


def hidden(home: Path) -> list[str]:
    """Return a fault if the nodes could not see the cluster's folder.

    >>> hidden(Path("/var/lib/checkout/.tools/cluster"))
    ['the checkout lies in /var/lib, of which each node has its own; move it elsewhere']
    """
    return [
        f"the checkout lies in {folder}, of which each node has its own; move it elsewhere"
        for folder in HIDDEN
        if home.is_relative_to(folder)
    ]


def full(free: int) -> list[str]:
    """Return a fault if the checkout's disk has too little space, in bytes.

    >>> full(3_000_000_000)
    ["3.0 GB are free on the checkout's disk, the cluster needs 10; make room"]
    """
    if free >= FREE:
        return []
    need = FREE // 10**9
    seen = f"{free / 1e9:.1f} GB are free on the checkout's disk"
    return [f"{seen}, the cluster needs {need}; make room"]


def no_cgroups(
    mounts: str, writable: Callable[[str], bool], unified: Callable[[str], set[str]]
) -> list[str]:
    """Return a fault if neither cgroup v2 nor the v1 hierarchies can be used.

    ``mounts`` is /proc/mounts; ``unified`` gives the controllers of a cgroup v2 mount.
    """
    v1: set[str] = set()
    for line in mounts.splitlines():
        _, folder, kind, options = line.split()[:4]
        if kind == "cgroup" and writable(folder):
            v1 |= set(options.split(","))
        if kind == "cgroup2" and writable(folder) and unified(folder) >= V2:
            return []
    missing = sorted(V1 - v1)
    if not missing:
        return []
    return [
        "no cgroups that can be used: neither v2 with its controllers, nor v1"
        f" (missing or read-only: {', '.join(missing)}); use a machine or a privileged container"
        " with /sys/fs/cgroup writable"
    ]


def _unified_controllers(folder: str) -> set[str]:
    return set((Path(folder) / "cgroup.controllers").read_text(encoding="ascii").split())


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
