"""The cluster as plain processes: needs root and containerd, but no container engine."""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster import kubectl, supervise
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.node import images, lifecycle, network
from tests.e2e.cluster.processes import leftover, manifests, requirements
from tests.e2e.cluster.processes.control_plane import ControlPlane


@dataclass(frozen=True)
class Processes:
    """Implements ``Cluster`` with the control plane and nodes as processes."""

    layout: Layout

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.layout.nodes)

    @property
    def control_plane(self) -> ControlPlane:
        return ControlPlane(layout=self.layout)

    def check(self) -> None:
        """Verify the requirements before anything starts; remove the network of a dead cluster."""
        if leftover.abandoned(self.layout):
            network.remove(self.layout)
        requirements.verify(self.layout)
        # Go fetches them the first time.
        manifests.cache(self.layout)

    def up(self) -> None:
        """Start the API server, then controllers and nodes in parallel."""
        control_plane = self.control_plane
        shutil.rmtree(self.layout.logs, ignore_errors=True)
        control_plane.prepare()
        network.create(self.layout)
        control_plane.start_api()
        with ThreadPoolExecutor() as pool:
            parts = [pool.submit(control_plane.start_controllers)]
            parts += [pool.submit(lifecycle.start, self.layout, it) for it in self.layout.nodes]
        for part in parts:
            part.result()
        for it in self.layout.nodes:
            self._wait_ready(it)

    def down(self) -> None:
        self._each(lifecycle.stop)
        for process in supervise.recorded(self.layout):
            # SIGKILL: their data is removed anyway.
            supervise.stop(self.layout, process.name, grace=0)
        network.remove(self.layout)

    def load_image(self, archive: Path) -> None:
        if not archive.is_file():
            raise Problem(f"image archive {archive} not found")
        images.load(self.layout, archive)

    def stop_kubelet(self, name: str) -> None:
        """Stop a node's kubelet; its pods keep running."""
        lifecycle.stop_kubelet(self.layout, self._node(name))

    def start_kubelet(self, name: str) -> None:
        lifecycle.start_kubelet(self.layout, self._node(name))

    def power_off(self, name: str) -> None:
        lifecycle.power_off(self.layout, self._node(name))

    def power_on(self, name: str) -> None:
        """Start a node that was powered off; none of its containers survives."""
        lifecycle.power_on(self.layout, self._node(name))

    def restart(self, controller: str) -> None:
        self.control_plane.restart(controller)

    def stop_api(self) -> None:
        self.control_plane.stop_api()

    def start_api(self) -> None:
        self.control_plane.start_api()

    def configure(self, controller: str, overrides: Mapping[str, Any]) -> None:
        """Restart jobset or kueue with overrides over its configuration; {} restores it."""
        self.control_plane.configure(controller, overrides)

    def _node(self, name: str) -> Node:
        for it in self.layout.nodes:
            if it.name == name:
                return it
        raise Problem(f"unknown node {name}; known: {', '.join(self.nodes)}")

    def _each(self, act: Callable[[Layout, Node], None]) -> None:
        with ThreadPoolExecutor() as pool:
            parts = [pool.submit(act, self.layout, it) for it in self.layout.nodes]
        for part in parts:
            part.result()

    def _wait_ready(self, it: Node) -> None:
        def ready() -> bool:
            return kubectl.node_ready(self.layout, it.name)

        supervise.wait_until(self.layout, f"{it.name}-kubelet", "ready", ready)
