"""The namespaces of a node: how they begin, what is mounted in them, how something runs in them.

Their first process is ``pause``, as in a pod: it takes the exit status of orphans. When it dies the
kernel kills every other process of the node, and mounts and network go with the last of them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster import programs, supervise
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.supervise import Process

KINDS = ("--mount", "--net", "--uts", "--ipc", "--pid")
CREATE = ("unshare", *KINDS, "--fork", "--kill-child", "--propagation=private")
"""Runs another command as the first process of new namespaces, waits for it, and dies with it."""
OWN = {"/var/lib": "lib", "/var/log": "log", "/etc/hosts": "hosts"}
"""What of the host a node has its own of, and what that is called in the node's folder."""
TUNABLES: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole machine that kubelet writes at its start, unless they read so already."""


def script(node: Node) -> str:
    """Return what makes a node's view of the machine, run in its new namespaces.

    Files lie over the kernel's settings, so that kubelet reads what it wants and changes nothing.
    """
    binds = {node.folder / own: path for path, own in OWN.items()}
    binds |= {tunable(node, name): f"/proc/sys/{name}" for name in TUNABLES}
    lines = [
        "mount --make-rshared /",
        "mount -t proc proc /proc",
        "mount -t tmpfs -o mode=755 tmpfs /run",
        *(f"mount --bind {shlex.quote(str(own))} {path}" for own, path in binds.items()),
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
        f"hostname {node.name}",
    ]
    return "\n".join(lines) + "\n"


def tunable(node: Node, name: str) -> Path:
    """Return the file that a node sees in place of one in /proc/sys."""
    return node.folder / "sys" / name.replace("/", ".")


def enter(first: int) -> tuple[str, ...]:
    """Return the command that runs another one in the namespaces of a node's first process."""
    return ("nsenter", f"--target={first}", *KINDS, "--")


def first(layout: Layout, node: Node) -> int:
    """Return the process id, as the host sees it, of a node's first process.

    Raises:
        Problem: the node does not run.
    """
    process = supervise.find(layout, node.name)
    if process is None or not process.alive:
        raise Problem(f"{node.name} does not run; start it, or run `megatron-dpo cluster down`")
    return child(layout, process)


def child(layout: Layout, process: Process) -> int:
    """Return the one process that unshare or nsenter forks: it runs what they were given."""
    found: list[int] = []

    def forked() -> bool:
        found.extend(children(process.pid))
        return bool(found)

    programs.until(layout, process.name, "started", forked)
    return found[0]


def children(pid: int) -> list[int]:
    """Return the processes that a process has forked; none if it is gone."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended since it was listed
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def kill(layout: Layout, node: Node) -> None:
    """Kill a node's first process; returns when every process of the node is dead."""
    process = supervise.find(layout, node.name)
    if process is not None and process.alive:
        for pid in children(process.pid):
            with contextlib.suppress(ProcessLookupError):  # it ends by itself
                os.kill(pid, signal.SIGKILL)
        # The first process is gone after all others are, and unshare only after it.
        deadline = time.monotonic() + supervise.GRACE
        while process.alive and time.monotonic() < deadline:
            time.sleep(0.01)
    supervise.stop(layout, node.name, grace=0)
