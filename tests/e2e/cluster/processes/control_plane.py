"""Start, stop and restart the control plane: API server, its controllers, JobSet and Kueue."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster import kubectl, storage, supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import coredns, credentials, kubernetes, managers, manifests
from tests.e2e.cluster.supervise import Program


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """The programs of the control plane, which run outside the nodes."""

    layout: Layout

    @cached_property
    def released(self) -> dict[str, list[manifests.Object]]:
        """Return the released objects of JobSet and Kueue, by name."""
        return {name: manifests.released(self.layout, name) for name in manifests.CONTROLLERS}

    @property
    def programs(self) -> dict[str, Program]:
        layout = self.layout
        core = (
            kubernetes.etcd(layout),
            kubernetes.api_server(layout),
            kubernetes.controller_manager(layout),
            kubernetes.scheduler(layout),
            coredns.coredns(layout),
        )
        controllers = (managers.manager(layout, name) for name in manifests.CONTROLLERS)
        return {program.name: program for program in (*core, *controllers)}

    def prepare(self) -> None:
        layout = self.layout
        credentials.write(layout)
        coredns.write(layout)
        storage.make_folders(layout)
        for name, objects in self.released.items():
            managers.write(layout, name, manifests.shipped_config(objects), {})

    def start_api(self) -> None:
        """Start etcd if it does not run, then the API server; wait until it is ready."""
        if supervise.find(self.layout, "etcd") is None:
            supervise.start(self.layout, "etcd", self.programs["etcd"].argv)
        self._start("kube-apiserver")

    def stop_api(self) -> None:
        """Kill the API server; its watchers lose their connections, as in a crash."""
        supervise.stop(self.layout, "kube-apiserver", grace=0)

    def start_controllers(self) -> None:
        """Create the objects, start the API server's clients and wait until they are ready."""
        first, webhooks = manifests.split(self._objects())
        own = [*credentials.objects(), *coredns.objects(), *storage.objects(self.layout)]
        kubectl.create(self.layout, [*first, *own])
        self._wait_served(first)
        # Start these after the CRDs: the garbage collector discovers new kinds only every 30 s.
        self._start("kube-controller-manager", "kube-scheduler", "coredns", *manifests.CONTROLLERS)
        kubectl.create(self.layout, webhooks)

    def restart(self, name: str) -> None:
        if name not in self.programs:
            raise Problem(f"unknown program {name}; known: {', '.join(self.programs)}")
        supervise.stop(self.layout, name)
        self._start(name)

    def configure(self, controller: str, overrides: Mapping[str, Any]) -> None:
        """Restart jobset or kueue with these overrides over its configuration."""
        shipped = manifests.shipped_config(self.released[controller])
        managers.write(self.layout, controller, shipped, overrides)
        self.restart(controller)

    def _objects(self) -> list[manifests.Object]:
        authority = base64.b64encode((self.layout.pki / "ca.crt").read_bytes()).decode("ascii")
        return [
            item
            for name, released in self.released.items()
            for item in manifests.rewrite(
                released, managers.webhooks_url(self.layout, name), authority
            )
        ]

    def _start(self, *names: str) -> None:
        for name in names:
            supervise.start(self.layout, name, self.programs[name].argv)
        for name in names:
            supervise.wait_ready(self.layout, self.programs[name])

    def _wait_served(self, objects: list[manifests.Object]) -> None:
        """Wait until the API server lists the new kinds: Kueue exits if one is missing."""
        wanted = manifests.served(objects)

        def listed() -> bool:
            return all(kinds <= self._resources(path) for path, kinds in wanted.items())

        supervise.wait_until(
            self.layout, "kube-apiserver", "serving JobSet's and Kueue's kinds", listed
        )

    def _resources(self, path: str) -> set[str]:
        try:
            content = json.loads(kubectl.run(self.layout, "get", "--raw", path))
        except Problem:
            return set()
        return {item["name"] for item in content["resources"]}
