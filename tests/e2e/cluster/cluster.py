"""What every cluster of this command can do, and which one is running."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout

Backend = Literal["kind", "processes"]
ENGINES = ("docker", "podman")


class Cluster(Protocol):
    """A Kubernetes cluster on this machine, with JobSet and Kueue."""

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""

    @property
    def shared(self) -> Path:
        """Return the host's folder behind the storage class ``shared``."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that run pods."""

    def check(self) -> None:
        """Raise a Problem if it can't start on this machine; starts nothing."""

    def up(self) -> None:
        """Start it; returns when it is ready."""

    def down(self) -> None:
        """End it and remove what it made, in whatever state it is."""

    def load_image(self, archive: Path) -> None:
        """Load a docker-archive on all nodes."""

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet; its pods run on."""

    def start_kubelet(self, node: str) -> None:
        """Start it again."""

    def power_off(self, node: str) -> None:
        """Cut a node's power: all that runs on it is gone at once."""

    def power_on(self, node: str) -> None:
        """Start it again, empty of pods."""

    def restart(self, controller: str) -> None:
        """Restart jobset, kueue, kube-controller-manager or kube-scheduler; returns when ready."""

    def stop_api(self) -> None:
        """Take the API server away."""

    def start_api(self) -> None:
        """Bring it back, with the same data."""

    def configure_kueue(self, overrides: Mapping[str, Any]) -> None:
        """Restart Kueue with its configuration and these overrides; {} restores it."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Which cluster is up, or was begun."""

    backend: Backend
    nodes: int

    @classmethod
    def read(cls, layout: Layout) -> State | None:
        """Return the state; None if nothing was begun."""
        try:
            return cls(**json.loads(_state_file(layout).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def write(self, layout: Layout) -> None:
        """Keep it until ``down``."""
        file = _state_file(layout)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def open_cluster(backend: Backend, size: int) -> Cluster:
    """Return the cluster of a backend, running or not. Only the asked backend is imported."""
    module = importlib.import_module(f"tests.e2e.cluster.{backend}.backend")
    cluster: Cluster = getattr(module, backend.capitalize())(Layout(size=size))
    return cluster


def start(backend: Backend, size: int) -> Cluster:
    """Start a cluster and return it.

    Raises:
        Problem: it can't start here, and nothing was started; or it did not start, and what runs of
            it is left to be looked at.
    """
    cluster = open_cluster(backend, size)
    cluster.check()
    State(backend=backend, nodes=size).write(Layout())
    cluster.up()
    return cluster


def stop() -> bool:
    """End the cluster, in whatever state it is; False if there is nothing to end."""
    run = Layout().run
    if not run.exists():
        return False
    # Without a state its writing was cut, or it was removed: what is recorded is still ended.
    state = State.read(Layout()) or State(backend="processes", nodes=Layout().size)
    open_cluster(state.backend, state.nodes).down()
    if run.exists():
        mounted = mounts_below(Path("/proc/self/mounts").read_text(encoding="utf-8"), run)
        if mounted:
            raise Problem(f"{mounted[0]} is still mounted; run `umount {mounted[0]}`, then again")
        shutil.rmtree(run)
    return True


def mounts_below(mounts: str, folder: Path) -> list[str]:
    """Return the mount points in a folder, of /proc/mounts: what is behind them must not go.

    >>> mounts_below("a /x/run/b ext4 rw 0 0", Path("/x/run"))
    ['/x/run/b']
    """
    points = [line.split()[1] for line in mounts.splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]


def begun(layout: Layout) -> State:
    """Return the state of the cluster that was begun.

    Raises:
        Problem: there is none.
    """
    state = State.read(layout)
    if state is None:
        raise Problem("no cluster is up; run `megatron-dpo cluster up`")
    return state


def connect() -> Cluster:
    """Return the running cluster.

    Raises:
        Problem: there is none.
    """
    state = begun(Layout())
    return open_cluster(state.backend, state.nodes)


def choose(asked: str) -> Backend:
    """Return the backend for ``auto``, ``kind`` or ``processes``: kind where an engine answers."""
    if asked == "kind" or (asked == "auto" and any(_engine_answers(name) for name in ENGINES)):
        return "kind"
    return "processes"


def _engine_answers(name: str) -> bool:
    if shutil.which(name) is None:
        return False
    done = subprocess.run([name, "info"], capture_output=True, timeout=20, check=False)
    return done.returncode == 0


def _state_file(layout: Layout) -> Path:
    return layout.run / "state.json"
