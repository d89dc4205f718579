"""The interface of a cluster, the state of the one that is up, and its start and stop."""

from __future__ import annotations

import fcntl
import importlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from scripts.problem import Problem
from tests.e2e.cluster import kubectl, supervise
from tests.e2e.cluster.kind.engine import find_engine
from tests.e2e.cluster.layout import Layout

Backend = Literal["kind", "processes"]


class Cluster(Protocol):
    """A Kubernetes cluster on this machine, with JobSet and Kueue; a backend implements it."""

    @property
    def layout(self) -> Layout:
        """Return the cluster's paths, e.g. the administrator's kubeconfig."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that run pods."""

    def check(self) -> None:
        """Raise a Problem if the cluster cannot start on this machine; start nothing."""

    def up(self) -> None:
        """Start the cluster and wait until pods can run and the webhooks answer."""

    def down(self) -> None:
        """Stop the cluster, in any state, and remove what it created."""

    def load_image(self, archive: Path) -> None:
        """Load an image archive on all nodes."""

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet; its pods keep running."""

    def start_kubelet(self, node: str) -> None:
        """Start a stopped kubelet."""

    def power_off(self, node: str) -> None:
        """Kill everything that runs on a node, as a power failure does."""

    def power_on(self, node: str) -> None:
        """Start a node that was powered off; none of its containers survives."""

    def restart(self, controller: str) -> None:
        """Restart jobset, kueue, kube-controller-manager or kube-scheduler; wait until ready."""

    def stop_api(self) -> None:
        """Stop the API server."""

    def start_api(self) -> None:
        """Start the API server with the same data."""

    def configure(self, controller: str, overrides: Mapping[str, Any]) -> None:
        """Restart jobset or kueue with overrides over its configuration; {} restores it."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Backend and size of the cluster that was started."""

    backend: Backend
    nodes: int

    @classmethod
    def read(cls, layout: Layout) -> State | None:
        """Return the recorded state; None if no cluster was started."""
        try:
            return cls(**json.loads(_state_file(layout).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    @classmethod
    def require(cls, layout: Layout) -> State:
        """Return the recorded state."""
        state = cls.read(layout)
        if state is None:
            raise Problem("no cluster is up; run `make cluster`")
        return state

    def write(self, layout: Layout) -> None:
        """Record the state; ``stop`` removes it."""
        file = _state_file(layout)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Status:
    """Observed condition of the cluster that was started."""

    backend: str
    kubeconfig: Path
    shared: Path
    nodes: dict[str, bool]
    """Expected nodes, and whether each is Ready."""
    faults: tuple[str, ...]
    """Faults found; empty if the cluster is healthy."""


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Hold the checkout's lock: one start or stop at a time. The kernel frees it on exit."""
    layout.home.mkdir(parents=True, exist_ok=True)
    with (layout.home / "lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(
                "another command starts or stops this checkout's cluster; wait for it, then retry"
            ) from None
        yield


def choose(asked: str) -> Backend:
    """Return the backend for ``auto``, ``kind`` or ``processes``.

    ``auto`` is kind if a container engine answers, otherwise processes.
    """
    if asked == "kind" or (asked == "auto" and find_engine() is not None):
        return "kind"
    return "processes"


def start(backend: Backend, size: int) -> Cluster:
    """Start a cluster of ``size`` nodes and return it."""
    cluster = _open(backend, size)
    cluster.check()
    State(backend=backend, nodes=size).write(Layout())
    cluster.up()
    return cluster


def stop() -> bool:
    """Stop the cluster, in any state; return False if there is none."""
    run = Layout().run
    if not run.exists():
        return False
    # If the state file is missing or was never written, recorded processes are still stopped.
    state = State.read(Layout()) or State(backend="processes", nodes=Layout().size)
    _open(state.backend, state.nodes).down()
    if run.exists():
        mounted = mounts_below(Path("/proc/self/mounts").read_text(encoding="utf-8"), run)
        if mounted:
            raise Problem(f"{mounted[0]} is still mounted; run `umount {mounted[0]}`, then retry")
        shutil.rmtree(run)
    return True


def connect() -> Cluster:
    """Return the running cluster."""
    state = State.require(Layout())
    return _open(state.backend, state.nodes)


def status() -> Status:
    """Return the condition of this checkout's cluster."""
    state = State.require(Layout())
    layout = Layout(size=state.nodes)
    cluster = _open(state.backend, state.nodes)
    exited = [it.name for it in supervise.recorded(layout) if not it.alive]
    nodes, faults = dict.fromkeys(cluster.nodes, False), [f"{name} has exited" for name in exited]
    if kubectl.api_ready(layout):
        nodes = {name: kubectl.node_ready(layout, name) for name in cluster.nodes}
        faults += [f"{name} is not ready" for name, ready in nodes.items() if not ready]
    else:
        faults.append("the API server does not answer")
    return Status(
        backend=state.backend,
        kubeconfig=layout.kubeconfig,
        shared=layout.shared,
        nodes=nodes,
        faults=tuple(faults),
    )


def mounts_below(mounts: str, folder: Path) -> list[str]:
    """Return the mount points below a folder, from /proc/mounts; removal would follow them.

    >>> mounts_below("a /x/run/b ext4 rw 0 0", Path("/x/run"))
    ['/x/run/b']
    """
    points = [line.split()[1] for line in mounts.splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]


def _open(backend: Backend, size: int) -> Cluster:
    """Return the cluster of a backend, running or not; import only that backend."""
    module = importlib.import_module(f"tests.e2e.cluster.{backend}.backend")
    cluster: Cluster = getattr(module, backend.capitalize())(Layout(size=size))
    return cluster


def _state_file(layout: Layout) -> Path:
    return layout.run / "state.json"
