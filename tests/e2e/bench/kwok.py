"""Fake nodes whose kubelets kwok simulates, so that 1,024 pods fit on one machine."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.helm import ROOT
from scripts.problem import Problem
from tests.e2e.bench import api
from tests.e2e.bench.clock import wait_for
from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import RACK_LABEL, Layout

TOOL = ROOT / "tests" / "e2e" / "tools" / "kwok"
TAINT = "kwok.x-k8s.io/node"
STAGES = {
    "hold": ("pod-ready", "pod-delete"),
    "complete": ("pod-ready", "pod-complete", "pod-delete"),
}
"""kwok's pod stages by mode: a Job's pod stays Running, or succeeds at once."""
PER_RACK = 16


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Fake nodes of 8 GPUs each, 16 to a rack."""

    size: int

    def nodes(self) -> list[dict[str, Any]]:
        """Return the Node objects.

        >>> [node["metadata"]["name"] for node in Fleet(size=2).nodes()]
        ['fake-0000', 'fake-0001']
        """
        return [fake_node(number) for number in range(self.size)]


def fake_node(number: int) -> dict[str, Any]:
    """Return one Node, tainted so that only pods of the fake flavor are scheduled on it."""
    name = f"fake-{number:04}"
    room = {
        "cpu": "128",
        "memory": "2Ti",
        "pods": "110",
        "nvidia.com/gpu": "8",
        "ephemeral-storage": "1Ti",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {TAINT: "fake"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                RACK_LABEL: f"fake-rack-{number // PER_RACK:03}",
            },
        },
        "spec": {"taints": [{"key": TAINT, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }


@contextmanager
def running(layout: Layout, fleet: Fleet, stages: str) -> Iterator[None]:
    """Run kwok with a fleet; remove the nodes when the context ends."""
    program = layout.bin / "kwok"
    if not program.is_file():
        raise Problem("kwok is not built; run `make bench-cluster`")
    folder = stage_folder()
    config = [f"--config={folder / name}.yaml" for name in STAGES[stages]]
    supervise.start(
        layout,
        "kwok",
        [
            program,
            f"--kubeconfig={layout.kubeconfig}",
            "--manage-all-nodes=false",
            # Without leases the nodes become unreachable after 50 s.
            "--node-lease-duration-seconds=40",
            f"--manage-nodes-with-annotation-selector={TAINT}=fake",
            *config,
        ],
    )
    try:
        api.apply(layout, fleet.nodes())
        wait_for("fake nodes ready", lambda: ready(layout) == fleet.size, 120)
        yield
    finally:
        api.kubectl(layout, "delete", "nodes", "--selector=type=kwok", "--wait=false")
        supervise.stop(layout, "kwok")


def ready(layout: Layout) -> int:
    nodes = api.get(layout, "/api/v1/nodes?labelSelector=type%3Dkwok")["items"]
    conditions = [c for node in nodes for c in node["status"].get("conditions", [])]
    return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def stage_folder() -> Path:
    words = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    done = subprocess.run(words, cwd=TOOL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"go cannot find the module of kwok: {done.stderr.strip()}")
    return Path(done.stdout.strip()) / "kustomize" / "stage" / "pod" / "fast"


def versions() -> dict[str, str]:
    """Return the versions of the built programs, by the folder of tests/e2e/tools."""
    found: dict[str, str] = {}
    for file in sorted(TOOL.parent.glob("*/go.mod")):
        words = ["go", "mod", "edit", "-json", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        module = json.loads(done.stdout)
        paths = tuple(f"{tool['Path']}/" for tool in module.get("Tool") or [])
        for required in module.get("Require") or []:
            if any(path.startswith(f"{required['Path']}/") for path in paths):
                found[file.parent.name] = required["Version"]
    return found
