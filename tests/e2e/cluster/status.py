"""Whether the cluster that was begun is whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.problem import Problem
from tests.e2e.cluster import kubectl, supervise
from tests.e2e.cluster.cluster import begun, open_cluster
from tests.e2e.cluster.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Status:
    """What is seen of a cluster."""

    backend: str
    kubeconfig: Path
    shared: Path
    nodes: dict[str, bool]
    """Nodes that should be there, and whether the API server says that they are ready."""
    faults: tuple[str, ...]
    """What is wrong, empty if all is well."""


def look() -> Status:
    """Return what is seen of the cluster of this checkout.

    Raises:
        Problem: there is none.
    """
    state = begun(Layout())
    layout = Layout(size=state.nodes)
    cluster = open_cluster(state.backend, state.nodes)
    ended = [it.name for it in supervise.recorded(layout) if not it.alive]
    nodes, faults = dict.fromkeys(cluster.nodes, False), [f"{name} has ended" for name in ended]
    if answers(layout):
        nodes = {name: kubectl.ready(layout, name) for name in cluster.nodes}
        faults += [f"{name} is not ready" for name, ready in nodes.items() if not ready]
    else:
        faults.append("the API server does not answer")
    return Status(
        backend=state.backend,
        kubeconfig=cluster.kubeconfig,
        shared=cluster.shared,
        nodes=nodes,
        faults=tuple(faults),
    )


def answers(layout: Layout) -> bool:
    """Return whether the API server says that it is ready."""
    try:
        return kubectl.run(layout, "get", "--raw", "/readyz", "--request-timeout=5s") == "ok"
    except Problem:
        return False
