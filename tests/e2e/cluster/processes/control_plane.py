"""The control plane at work: API server, its controllers, JobSet and Kueue."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster import certificates, kubectl, programs, storage, supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import coredns as dns
from tests.e2e.cluster.processes import credentials as access
from tests.e2e.cluster.processes import kubernetes as control_plane
from tests.e2e.cluster.processes import managers as controllers
from tests.e2e.cluster.processes import manifests
from tests.e2e.cluster.programs import Program


@dataclass(frozen=True, kw_only=True)
class Management:
    """Starts, restarts and stops the programs that run beside the nodes."""

    layout: Layout

    @cached_property
    def released(self) -> dict[str, list[manifests.Object]]:
        """Return the released objects of JobSet and Kueue, by name."""
        return {name: manifests.released(self.layout, name) for name in controllers.NAMES}

    @property
    def programs(self) -> dict[str, Program]:
        """Return all programs by name, in the order in which they start."""
        layout = self.layout
        core = (
            control_plane.etcd(layout),
            control_plane.api_server(layout),
            control_plane.controller_manager(layout),
            control_plane.scheduler(layout),
            dns.coredns(layout),
        )
        managers = (controllers.manager(layout, name) for name in controllers.NAMES)
        return {program.name: program for program in (*core, *managers)}

    def prepare(self) -> None:
        """Write all files that the programs read."""
        layout = self.layout
        certificates.write(layout)
        access.write(layout)
        dns.write(layout)
        storage.make_folders(layout)
        for name, objects in self.released.items():
            controllers.write(layout, name, manifests.shipped_config(objects), {})

    def start_api(self) -> None:
        """Start etcd where it does not run, and the API server; returns when it is ready."""
        if supervise.find(self.layout, "etcd") is None:
            programs.start(self.layout, self.programs["etcd"])
        self._start("kube-apiserver")

    def stop_api(self) -> None:
        """Kill the API server: its watchers see a cut connection, as in a crash."""
        supervise.stop(self.layout, "kube-apiserver", grace=0)

    def start_controllers(self) -> None:
        """Create the objects and start all that needs the API server; returns when it is ready."""
        first, hooks = manifests.split(self._objects())
        own = [*access.objects(), *dns.objects(), *storage.objects(self.layout)]
        kubectl.create(self.layout, [*first, *own])
        self._wait_served(first)
        # Only now: a garbage collector that is there before its kinds sees them 30 s later.
        self._start("kube-controller-manager", "kube-scheduler", "coredns", *controllers.NAMES)
        kubectl.create(self.layout, hooks)

    def restart(self, name: str) -> None:
        """Restart one controller; returns when it is ready."""
        if name not in self.programs:
            raise Problem(f"no program {name}; there are: {', '.join(self.programs)}")
        supervise.stop(self.layout, name)
        self._start(name)

    def configure_kueue(self, overrides: Mapping[str, Any]) -> None:
        """Restart Kueue with these overrides over its configuration."""
        shipped = manifests.shipped_config(self.released["kueue"])
        controllers.write(self.layout, "kueue", shipped, overrides)
        self.restart("kueue")

    def _objects(self) -> list[manifests.Object]:
        authority = base64.b64encode((self.layout.pki / "ca.crt").read_bytes()).decode("ascii")
        return [
            item
            for name, released in self.released.items()
            for item in manifests.rewrite(
                released, controllers.hooks_url(self.layout, name), authority
            )
        ]

    def _start(self, *names: str) -> None:
        for name in names:
            programs.start(self.layout, self.programs[name])
        for name in names:
            programs.wait(self.layout, self.programs[name])

    def _wait_served(self, objects: list[manifests.Object]) -> None:
        """Wait until the API lists the new kinds: Kueue ends where it does not find one."""
        wanted = manifests.served(objects)

        def listed() -> bool:
            return all(kinds <= self._resources(path) for path, kinds in wanted.items())

        programs.until(self.layout, "kube-apiserver", "serving JobSet's and Kueue's kinds", listed)

    def _resources(self, path: str) -> set[str]:
        try:
            content = json.loads(kubectl.run(self.layout, "get", "--raw", path))
        except Problem:
            return set()
        return {item["name"] for item in content["resources"]}
