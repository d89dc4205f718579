"""The cluster of kind: nodes are containers, JobSet and Kueue come from their released charts.

Shown in public CI only (.github/workflows/e2e.yaml): where this was written no container engine
runs. The versions can be chosen: E2E_KUBERNETES, E2E_JOBSET, E2E_KUEUE.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.helm import ROOT, find_helm
from scripts.problem import Problem
from tests.e2e.cluster import kubectl, status, storage
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.kind import config as kind_config
from tests.e2e.cluster.kind.config import NAME
from tests.e2e.cluster.kind.engine import engine, kind, until
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.node.kubelet import DEVICES
from tests.e2e.cluster.processes.managers import merge

CONTROL_PLANE = f"{NAME}-control-plane"
MANIFEST = "kube-apiserver.yaml"
PROBES: tuple[dict[str, Any], ...] = (
    {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {}},
    {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "spec": {}},
)
"""Each passes the webhooks of its controller: to create it, dry, shows that they answer."""


@dataclass(frozen=True)
class Kind:
    """Implements ``Cluster`` with kind and a container engine."""

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
        """Return the names of the workers."""
        return kind_config.workers(self.layout)

    def check(self) -> None:
        """Refuse what can't work, before anything starts."""
        kind_config.versions(os.environ)
        kubectl.binary(self.layout)
        find_helm()
        if NAME in kind(self.layout, "get", "clusters").split():
            text = f"a kind cluster {NAME} is there, of another checkout or a dead one"
            raise Problem(f"{text}; run `kind delete cluster --name {NAME}`")

    def up(self) -> None:
        """Start it; returns when pods can run and the webhooks answer."""
        chosen = kind_config.versions(os.environ)
        storage.make_folders(self.layout)
        train = ROOT / ".tools" / "train"
        seen = [train] if train.exists() else []  # the engine would make it, as root
        config = json.dumps(kind_config.config(self.layout, chosen.image, seen))
        create = ("create", "cluster", "--name", NAME, "--kubeconfig", str(self.kubeconfig))
        kind(self.layout, *create, "--config", "-", text=config)
        kubectl.run(self.layout, "wait", "node", "--all", "--for=condition=Ready", "--timeout=5m")
        for name, version in (("jobset", chosen.jobset), ("kueue", chosen.kueue)):
            words = kind_config.chart(name, version)
            run((find_helm(), *words, "--kubeconfig", self.kubeconfig))
        kubectl.create(self.layout, storage.objects(self.layout))
        self._kueue_base.write_text(self._kueue_config(), encoding="utf-8")
        for node in self.nodes:
            self._fake_devices(node)
        self._wait_webhooks()

    def down(self) -> None:
        """End it; what pods of other users wrote is removed from within, as root."""
        running = run((engine(), "ps", "--format", "{{.Names}}")).split()
        for node in [name for name in self.nodes if name in running][:1]:
            self._in(node, "find", str(self.shared), "-mindepth", "1", "-delete")
        kind(self.layout, "delete", "cluster", "--name", NAME)

    def load_image(self, archive: Path) -> None:
        """Load a docker-archive on all nodes."""
        kind(self.layout, "load", "image-archive", str(archive), "--name", NAME)

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet; its pods run on."""
        self._in(node, "systemctl", "stop", "kubelet")

    def start_kubelet(self, node: str) -> None:
        """Start it again."""
        self._in(node, "systemctl", "start", "kubelet")

    def power_off(self, node: str) -> None:
        """Kill all that runs on a node."""
        run((engine(), "kill", node))

    def power_on(self, node: str) -> None:
        """Start it again; no container of a pod came through."""
        run((engine(), "start", node))
        until(f"{node} is ready", lambda: kubectl.ready(self.layout, node))
        self._fake_devices(node)

    def restart(self, controller: str) -> None:
        """Restart a controller; returns when it is ready."""
        if controller in ("jobset", "kueue"):
            rollout = (f"-n{controller}-system", "rollout")
            kubectl.run(self.layout, *rollout, "restart", "deployment")
            kubectl.run(self.layout, *rollout, "status", "deployment", "--timeout=5m")
            self._wait_webhooks()
            return
        before = self._containers(controller)
        self._in(CONTROL_PLANE, "crictl", "stop", *before)
        # The control plane's kubelet starts it anew.
        until(f"{controller} runs", lambda: bool(self._containers(controller) - before))

    def stop_api(self) -> None:
        """Take the API server away: kubelet ends a static pod when its manifest goes."""
        self._in(CONTROL_PLANE, "mv", f"/etc/kubernetes/manifests/{MANIFEST}", f"/{MANIFEST}")
        until("the API server is away", lambda: not self._containers("kube-apiserver"))

    def start_api(self) -> None:
        """Bring it back, with the same data."""
        self._in(CONTROL_PLANE, "mv", f"/{MANIFEST}", f"/etc/kubernetes/manifests/{MANIFEST}")
        until("the API server is ready", lambda: status.answers(self.layout))

    def configure_kueue(self, overrides: Mapping[str, Any]) -> None:
        """Restart Kueue with its configuration and these overrides; {} restores it."""
        base = yaml.safe_load(self._kueue_base.read_text(encoding="utf-8"))
        data = {"controller_manager_config.yaml": yaml.safe_dump(merge(base, overrides))}
        words = ("-nkueue-system", "patch", "configmap", "kueue-manager-config", "--type=merge")
        kubectl.run(self.layout, *words, f"--patch={json.dumps({'data': data})}")
        self.restart("kueue")

    @property
    def _kueue_base(self) -> Path:
        return self.layout.run / "kueue.yaml"

    def _kueue_config(self) -> str:
        found = kubectl.get(self.layout, "configmap", "kueue-manager-config", "-nkueue-system")
        return str(found["data"]["controller_manager_config.yaml"])

    def _containers(self, name: str) -> set[str]:
        """Return the ids of the running containers of a static pod."""
        return set(self._in(CONTROL_PLANE, "crictl", "ps", "--quiet", "--name", name).split())

    def _fake_devices(self, node: str) -> None:
        """Give a node its devices; a file where plugins register keeps kubelet from taking them."""
        self._in(node, "touch", "/var/lib/kubelet/device-plugins/fake")
        patch = json.dumps({"status": {"capacity": DEVICES, "allocatable": DEVICES}})
        words = ("patch", "node", node, "--subresource=status", "--type=merge")
        kubectl.run(self.layout, *words, f"--patch={patch}")

    def _wait_webhooks(self) -> None:
        until("the webhooks of JobSet and Kueue answer", lambda: all(map(self._accepts, PROBES)))

    def _accepts(self, probe: Mapping[str, Any]) -> bool:
        content = json.dumps({**probe, "metadata": {"name": "probe", "namespace": "default"}})
        try:
            kubectl.run(self.layout, "create", "--dry-run=server", "-f", "-", stdin=content)
        except Problem:
            return False
        return True

    def _in(self, node: str, *words: str) -> str:
        return run((engine(), "exec", node, *words))
