"""The cluster of plain processes: root and the distribution's containerd, no container engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster import kubectl, programs, supervise
from tests.e2e.cluster.layout import Layout, Node
from tests.e2e.cluster.node import images as image
from tests.e2e.cluster.node import lifecycle as node
from tests.e2e.cluster.node import network
from tests.e2e.cluster.processes import manifests
from tests.e2e.cluster.processes import requirements as checks
from tests.e2e.cluster.processes.control_plane import Management


@dataclass(frozen=True)
class Processes:
    """Implements ``Cluster`` with what ``management`` and ``node`` start."""

    layout: Layout

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def shared(self) -> Path:
        """Return the host's folder behind the storage class ``shared``."""
        return self.layout.shared

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes' names."""
        return tuple(node.name for node in self.layout.nodes)

    @property
    def management(self) -> Management:
        """Return what runs beside the nodes."""
        return Management(layout=self.layout)

    def check(self) -> None:
        """Refuse what can't work, before anything starts."""
        checks.refuse(self.layout)
        # The first time, Go fetches them.
        manifests.keep(self.layout)

    def up(self) -> None:
        """Start it: nodes and controllers side by side, once the API server is ready."""
        management = self.management
        shutil.rmtree(self.layout.logs, ignore_errors=True)
        management.prepare()
        network.create(self.layout)
        management.start_api()
        with ThreadPoolExecutor() as pool:
            parts = [pool.submit(management.start_controllers)]
            parts += [pool.submit(node.start, self.layout, it) for it in self.layout.nodes]
        for part in parts:
            part.result()
        for it in self.layout.nodes:
            self._wait_ready(it)

    def down(self) -> None:
        """End it; the logs stay."""
        self._each(node.stop)
        for process in supervise.recorded(self.layout):
            # Their data goes with them, nothing has to be saved.
            supervise.stop(self.layout, process.name, grace=0)
        network.remove(self.layout)

    def load_image(self, archive: Path) -> None:
        """Load a docker-archive on all nodes."""
        if not archive.is_file():
            raise Problem(f"no image archive {archive}")
        image.load(self.layout, archive)

    def stop_kubelet(self, name: str) -> None:
        """Stop a node's kubelet; its pods run on."""
        node.stop_kubelet(self.layout, self._node(name))

    def start_kubelet(self, name: str) -> None:
        """Start it again."""
        node.start_kubelet(self.layout, self._node(name))

    def power_off(self, name: str) -> None:
        """Kill all that runs on a node."""
        node.power_off(self.layout, self._node(name))

    def power_on(self, name: str) -> None:
        """Start it again, empty of pods."""
        node.power_on(self.layout, self._node(name))

    def restart(self, controller: str) -> None:
        """Restart a controller; returns when it is ready."""
        self.management.restart(controller)

    def stop_api(self) -> None:
        """Take the API server away."""
        self.management.stop_api()

    def start_api(self) -> None:
        """Bring it back, with the same data."""
        self.management.start_api()

    def configure_kueue(self, overrides: Mapping[str, Any]) -> None:
        """Restart Kueue with its configuration and these overrides; {} restores it."""
        self.management.configure_kueue(overrides)

    def _node(self, name: str) -> Node:
        for it in self.layout.nodes:
            if it.name == name:
                return it
        raise Problem(f"no node {name}; there are: {', '.join(self.nodes)}")

    def _each(self, act: Callable[[Layout, Node], None]) -> None:
        with ThreadPoolExecutor() as pool:
            parts = [pool.submit(act, self.layout, it) for it in self.layout.nodes]
        for part in parts:
            part.result()

    def _wait_ready(self, it: Node) -> None:
        def ready() -> bool:
            return kubectl.ready(self.layout, it.name)

        programs.until(self.layout, f"{it.name}-kubelet", "ready", ready)
