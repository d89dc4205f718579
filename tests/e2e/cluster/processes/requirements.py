"""Requirements of the processes backend on this machine; a fault is one line with its remedy."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import conflicts

FREE_BYTES = 6 * 10**9
"""Required free disk space: image layers, logs, workspaces of the tests.

Two clusters take 3 GB; kubelets evict pods at 1 % of the disk (``node/kubelet.py``).
"""
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
"""Debian package of each program that is not built by Go."""
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
BUILT = ("etcd", "coredns", "jobset", "kueue", "kubelet", "kube-proxy", "pause")
V1 = frozenset({"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"})
V2 = frozenset({"cpu", "cpuset", "memory", "pids"})
PRIVATE = ("/run", "/var/lib", "/var/log", "/proc", "/sys")
"""Folders that are private to each node."""


def verify(layout: Layout) -> None:
    """Verify that the cluster can start."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Problem(
            "the processes backend needs root on Linux (mounts, networks, cgroups);"
            " use sudo, or BACKEND=kind with a container engine"
        )
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    faults = [
        *missing_programs(lambda name: shutil.which(name) is not None),
        *not_built(layout),
        *private_folder(layout.home),
        *conflicts.find(layout),
        *disk_full(shutil.disk_usage(_existing(layout.home)).free),
        *no_cgroups(mounts, lambda folder: os.access(folder, os.W_OK), _unified_controllers),
    ]
    if faults:
        raise Problem("\n".join(faults))


def missing_programs(found: Callable[[str], bool]) -> list[str]:
    """Return a fault with the packages to install.

    >>> missing_programs(lambda name: name != "runc")
    ['runc not found; run `apt-get install --no-install-recommends runc`, or the equivalent']
    """
    missing = [name for name in PACKAGES if not found(name)]
    packages = sorted({PACKAGES[name] for name in missing})
    if not missing:
        return []
    command = f"apt-get install --no-install-recommends {' '.join(packages)}"
    return [f"{', '.join(missing)} not found; run `{command}`, or the equivalent"]


def not_built(layout: Layout) -> list[str]:
    wanted = [layout.control_plane / name for name in CONTROL_PLANE]
    wanted += [layout.bin / name for name in BUILT]
    missing = [str(path.relative_to(layout.home)) for path in wanted if not path.is_file()]
    if not missing:
        return []
    return [f"not built: {', '.join(missing)}; run `make cluster`, which builds them with Go"]


def private_folder(home: Path) -> list[str]:
    """Return a fault if the nodes cannot see the cluster's folder.

    >>> private_folder(Path("/var/lib/checkout/.tools/cluster"))
    ['the checkout is in /var/lib, which is private to each node; move the checkout']
    """
    return [
        f"the checkout is in {folder}, which is private to each node; move the checkout"
        for folder in PRIVATE
        if home.is_relative_to(folder)
    ]


def disk_full(free: int) -> list[str]:
    """Return a fault if the checkout's disk has too little space, in bytes.

    >>> disk_full(3_000_000_000)
    ["3.0 GB free on the checkout's disk, the cluster needs 6; free some space"]
    """
    if free >= FREE_BYTES:
        return []
    need = FREE_BYTES // 10**9
    found = f"{free / 1e9:.1f} GB free on the checkout's disk"
    return [f"{found}, the cluster needs {need}; free some space"]


def no_cgroups(
    mounts: str, writable: Callable[[str], bool], unified: Callable[[str], set[str]]
) -> list[str]:
    """Return a fault if neither cgroup v2 nor the v1 hierarchies are usable.

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
        "no usable cgroups: neither v2 with its controllers, nor v1"
        f" (missing or read-only: {', '.join(missing)}); use a machine or a privileged container"
        " with /sys/fs/cgroup writable"
    ]


def _unified_controllers(folder: str) -> set[str]:
    return set((Path(folder) / "cgroup.controllers").read_text(encoding="ascii").split())


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
