"""Faults of the cluster that ``repair`` undoes after any test."""

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.system.proc_stat import read_stat
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.kubectl import Kubectl
from tests.e2e.until import until

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(kw_only=True)
class Faults:
    cluster: Cluster
    kubectl: Kubectl
    _kubelets: set[str] = field(default_factory=set)
    _off: set[str] = field(default_factory=set)
    _api_away: bool = False
    _was_away: bool = False
    _configured: set[str] = field(default_factory=set)

    def stop_kubelet(self, node: str) -> None:
        self._kubelets.add(node)
        self.cluster.stop_kubelet(node)

    def start_kubelet(self, node: str) -> None:
        self.cluster.start_kubelet(node)
        self._kubelets.discard(node)

    def power_off(self, node: str) -> None:
        self._off.add(node)
        self.cluster.power_off(node)

    def power_on(self, node: str) -> None:
        self.cluster.power_on(node)
        self._off.discard(node)

    def stop_api(self) -> None:
        self._api_away = self._was_away = True
        self.cluster.stop_api()

    def start_api(self) -> None:
        self.cluster.start_api()
        self._api_away = False

    def configure_kueue(self, overrides: Mapping[str, Any]) -> None:
        self._configure("kueue", overrides)

    def configure_jobset(self, overrides: Mapping[str, Any]) -> None:
        self._configure("jobset", overrides)

    def _configure(self, controller: str, overrides: Mapping[str, Any]) -> None:
        self._configured.add(controller)
        self.cluster.configure(controller, overrides)

    def repair(self) -> None:
        """Undo all faults, and wait until all nodes are ready and schedulable."""
        with contextlib.ExitStack() as stack:  # a failure must not prevent the other repairs
            stack.callback(self._await_nodes)
            for controller in self._configured:
                stack.callback(self.cluster.configure, controller, {})
            for node in self._off:
                stack.callback(self.cluster.power_on, node)
            for node in self._kubelets:
                stack.callback(self.cluster.start_kubelet, node)
            if self._was_away:
                # Otherwise removed objects wait for the next retry of the garbage collector.
                stack.callback(self.cluster.restart, "kube-controller-manager")
            if self._api_away:
                stack.callback(self.cluster.start_api)

    def _await_nodes(self) -> None:
        for node in self.cluster.nodes:
            self.kubectl.run("uncordon", node)
            taints = self.kubectl.get("node", node)["spec"].get("taints", [])
            if any(taint["key"] == OUT_OF_SERVICE for taint in taints):
                self.kubectl.run("taint", "node", node, f"{OUT_OF_SERVICE}-")
        until("all nodes are ready", self._nodes_ready, seconds=60)

    def _nodes_ready(self) -> bool:
        return all(usable(node) for node in self.kubectl.items("nodes"))


def freeze(pod: str) -> int:
    """Send SIGSTOP to pid 1 of a pod's container, from outside of its namespace; return its pid."""
    pid = pid_of(pod)
    os.kill(pid, signal.SIGSTOP)
    return pid


def pid_of(pod: str) -> int:
    """Return the pid of process 1 of a pod's container.

    Nodes of either backend share this machine's kernel, so that the process is in /proc here.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            is_pods = f"DPO_POD_NAME={pod}\0".encode() in (folder / "environ").read_bytes()
            if is_pods and _pid_inside(folder) == 1:
                return int(folder.name)
    raise ProcessLookupError(f"no process of pod {pod}")


def is_stopped(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state == "T"


def runs(pid: int) -> bool:
    return not is_stopped(pid)


def _pid_inside(folder: Path) -> int:
    """Return a process's id in its own namespace."""
    lines = (folder / "status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))


def usable(node: Mapping[str, Any]) -> bool:
    """Return whether a Node is ready, untainted, and has its devices."""
    ready = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
    devices = node["status"].get("allocatable", {}).get("nvidia.com/gpu") == "8"
    return ready.get("Ready") == "True" and not node["spec"].get("taints") and devices


def patch(kubectl: Kubectl, kind: str, name: str, content: Mapping[str, Any]) -> None:
    kubectl.run("patch", kind, name, "--type=merge", f"--patch={json.dumps(content)}")
