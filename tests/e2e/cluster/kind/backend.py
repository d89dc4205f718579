"""The cluster on kind: nodes are containers; JobSet and Kueue come from their released charts.

It is tested in public CI only (.github/workflows/e2e.yaml). E2E_KUBERNETES, E2E_JOBSET and
E2E_KUEUE select other versions.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.helm import ROOT, find_helm
from scripts.problem import Problem
from tests.e2e.cluster import kubectl, storage
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.kind import config
from tests.e2e.cluster.kind.config import NAME
from tests.e2e.cluster.kind.engine import engine, kind, wait_until
from tests.e2e.cluster.layout import Layout
from tests.e2e.merge import merge

CONTROL_PLANE = f"{NAME}-control-plane"
MANIFEST = "kube-apiserver.yaml"
CONTROLLERS = ("jobset", "kueue")
CONFIG = "controller_manager_config.yaml"
"""Key of a controller's ConfigMap."""
PROBES: tuple[dict[str, Any], ...] = (
    {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {}},
    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "spec": {}},
)
"""A dry-run create of each passes its controller's webhooks, which shows that they answer."""


@dataclass(frozen=True)
class Kind:
    layout: Layout

    @property
    def nodes(self) -> tuple[str, ...]:
        return config.workers(self.layout)

    def check(self) -> None:
        """Verify the versions, the tools and that no kind cluster of this name exists."""
        config.versions(os.environ)
        kubectl.binary(self.layout)
        find_helm()
        if NAME in kind(self.layout, "get", "clusters").split():
            raise Problem(
                f"a kind cluster {NAME} exists, of another checkout or of a failed start;"
                f" run `kind delete cluster --name {NAME}`"
            )

    def up(self) -> None:
        """Start the cluster and wait until pods can run and the webhooks answer."""
        chosen = config.versions(os.environ)
        storage.make_folders(self.layout)
        # Only what exists: the engine would create a missing folder, as root.
        read_only = sorted((ROOT / ".tools").glob("train*"))
        text = json.dumps(config.config(self.layout, chosen.image, read_only))
        create = ("create", "cluster", "--name", NAME, "--kubeconfig", str(self.layout.kubeconfig))
        kind(self.layout, *create, "--config", "-", text=text)
        kubectl.run(self.layout, "wait", "node", "--all", "--for=condition=Ready", "--timeout=5m")
        for name, version in (("jobset", chosen.jobset), ("kueue", chosen.kueue)):
            words = config.helm_install(name, version)
            run((find_helm(), *words, "--kubeconfig", self.layout.kubeconfig))
        kubectl.create(self.layout, storage.objects(self.layout))
        for name in CONTROLLERS:
            text = self._config(name)["data"][CONFIG]
            self._base(name).write_text(text, encoding="utf-8")
        for node in self.nodes:
            self._fake_devices(node)
        self._wait_webhooks()

    def down(self) -> None:
        """Stop the cluster; remove pods' files inside a node first: other users own them."""
        running = run((engine(), "ps", "--format", "{{.Names}}")).split()
        for node in [name for name in self.nodes if name in running][:1]:
            self._in(node, "find", str(self.layout.shared), "-mindepth", "1", "-delete")
        kind(self.layout, "delete", "cluster", "--name", NAME)

    def load_image(self, archive: Path) -> None:
        kind(self.layout, "load", "image-archive", str(archive), "--name", NAME)

    def stop_kubelet(self, node: str) -> None:
        self._in(node, "systemctl", "stop", "kubelet")

    def start_kubelet(self, node: str) -> None:
        self._in(node, "systemctl", "start", "kubelet")

    def power_off(self, node: str) -> None:
        """Kill everything that runs on a node."""
        run((engine(), "kill", node))

    def power_on(self, node: str) -> None:
        """Start a node that was powered off; none of its containers survives."""
        run((engine(), "start", node))
        wait_until(f"{node} is not ready", lambda: kubectl.node_ready(self.layout, node))
        self._fake_devices(node)

    def restart(self, controller: str) -> None:
        if controller in CONTROLLERS:
            rollout = (f"-n{controller}-system", "rollout")
            kubectl.run(self.layout, *rollout, "restart", "deployment")
            kubectl.run(self.layout, *rollout, "status", "deployment", "--timeout=5m")
            self._wait_webhooks()
            return
        before = self._containers(controller)
        self._in(CONTROL_PLANE, "crictl", "stop", *before)
        # The kubelet of the control plane restarts it.
        wait_until(
            f"{controller} does not run", lambda: bool(self._containers(controller) - before)
        )

    def stop_api(self) -> None:
        """Stop the API server: kubelet ends a static pod when its manifest is removed."""
        self._in(CONTROL_PLANE, "mv", f"/etc/kubernetes/manifests/{MANIFEST}", f"/{MANIFEST}")
        wait_until("the API server is not stopped", lambda: not self._containers("kube-apiserver"))

    def start_api(self) -> None:
        self._in(CONTROL_PLANE, "mv", f"/{MANIFEST}", f"/etc/kubernetes/manifests/{MANIFEST}")
        wait_until("the API server is not ready", lambda: kubectl.api_ready(self.layout))

    def configure(self, controller: str, overrides: Mapping[str, Any]) -> None:
        """Restart jobset or kueue with overrides over its configuration; {} restores it."""
        base = yaml.safe_load(self._base(controller).read_text(encoding="utf-8"))
        data = {CONFIG: yaml.safe_dump(merge(base, overrides))}
        name = self._config(controller)["metadata"]["name"]
        words = (f"-n{controller}-system", "patch", "configmap", name, "--type=merge")
        kubectl.run(self.layout, *words, f"--patch={json.dumps({'data': data})}")
        self.restart(controller)

    def _base(self, controller: str) -> Path:
        """Return the file with the configuration that a controller was installed with."""
        return self.layout.run / f"{controller}.yaml"

    def _config(self, controller: str) -> dict[str, Any]:
        found = kubectl.get(self.layout, "configmaps", f"-n{controller}-system")["items"]
        return next(item for item in found if CONFIG in item.get("data", {}))

    def _containers(self, name: str) -> set[str]:
        return set(self._in(CONTROL_PLANE, "crictl", "ps", "--quiet", "--name", name).split())

    def _fake_devices(self, node: str) -> None:
        """Add the fake devices; the file in device-plugins keeps kubelet from removing them."""
        self._in(node, "touch", "/var/lib/kubelet/device-plugins/fake")
        kubectl.set_fake_devices(self.layout, node)

    def _wait_webhooks(self) -> None:
        wait_until(
            "the webhooks of JobSet and Kueue do not answer",
            lambda: all(map(self._accepts, PROBES)),
        )

    def _accepts(self, probe: Mapping[str, Any]) -> bool:
        content = json.dumps({**probe, "metadata": {"name": "probe", "namespace": "default"}})
        try:
            kubectl.run(self.layout, "create", "--dry-run=server", "-f", "-", stdin=content)
        except Problem:
            return False
        return True

    def _in(self, node: str, *words: str) -> str:
        return run((engine(), "exec", node, *words))
