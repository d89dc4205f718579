"""The Linux namespaces of a node: create and enter them, mount in them, kill their processes.

Their first process is ``pause``, as in a pod: it reaps orphans. When it dies, the kernel kills all
other processes of the node; mounts and network end with the last of them.
"""

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from launchers.system.proc_stat import read_stat
from scripts.problem import Problem
from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.supervise import Process

KINDS = ("--mount", "--net", "--uts", "--ipc", "--pid")
CREATE = ("unshare", *KINDS, "--fork", "--kill-child", "--propagation=private")
"""Runs a command as the first process of new namespaces and exits when it exits."""
PRIVATE = {"/var/lib": "lib", "/var/log": "log", "/etc/hosts": "hosts"}
"""Paths that are private to a node, and their names in the node's folder."""
TUNABLES: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Machine-wide settings that kubelet writes at start unless they already have these values."""


def script(node: Node) -> str:
    """Return the shell script that sets up a node's new namespaces.

    It mounts files over the kernel settings in ``TUNABLES``, so that kubelet reads the values that
    it expects and changes nothing on the machine.
    """
    binds = {node.folder / own: path for path, own in PRIVATE.items()}
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
    """Return the file that is mounted over /proc/sys/NAME."""
    return node.folder / "sys" / name.replace("/", ".")


def enter(first: int) -> tuple[str, ...]:
    """Return the command prefix that runs a program in the namespaces of process ``first``."""
    return ("nsenter", f"--target={first}", *KINDS, "--")


def first(layout: Layout, node: Node) -> int:
    """Return the host's process id of a node's first process."""
    process = supervise.find(layout, node.name)
    if process is None or not process.alive:
        raise Problem(f"{node.name} does not run; start it, or run `make cluster-down`")
    return child(layout, process)


def child(layout: Layout, process: Process) -> int:
    """Return the id of the process that unshare or nsenter forks to run its command."""
    found: list[int] = []

    def forked() -> bool:
        found.extend(children(process.pid))
        return bool(found)

    supervise.wait_until(layout, process.name, "started", forked)
    return found[0]


def children(pid: int) -> list[int]:
    """Return the ids of a process's children; empty if it has exited."""
    stats = {int(path.name): read_stat(path.name) for path in Path("/proc").glob("[0-9]*")}
    # a process without one has exited since it was listed
    return [child for child, stat in stats.items() if stat is not None and stat.parent == pid]


def kill(layout: Layout, node: Node) -> None:
    """Kill a node's first process and wait until every process of the node is dead."""
    process = supervise.find(layout, node.name)
    if process is not None and process.alive:
        for pid in children(process.pid):
            with contextlib.suppress(ProcessLookupError):  # it has exited
                os.kill(pid, signal.SIGKILL)
        # The first process exits after all others, and unshare exits after it.
        deadline = time.monotonic() + supervise.GRACE_SECONDS
        while process.alive and time.monotonic() < deadline:
            time.sleep(0.01)
    supervise.stop(layout, node.name, grace=0)
