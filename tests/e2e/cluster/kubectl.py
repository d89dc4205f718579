"""Run kubectl against the cluster: the built one, or the one on PATH."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster.layout import FAKE_DEVICES, Layout


def binary(layout: Layout) -> Path:
    """Return the path of kubectl."""
    own = layout.control_plane / "kubectl"
    found = own if own.exists() else Path(shutil.which("kubectl") or "")
    if not found.name:
        raise Problem("kubectl not found; run `make cluster`, which builds it, or install it")
    return found


def run(layout: Layout, *words: str, stdin: str | None = None) -> str:
    """Run kubectl as administrator of the running cluster and return its stdout."""
    argv = [str(binary(layout)), f"--kubeconfig={layout.kubeconfig}", *words]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no error message"]
        raise Problem(f"kubectl {' '.join(words[:2])} failed: {lines[-1]}")
    return done.stdout


def get(layout: Layout, *words: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(run(layout, "get", *words, "-o", "json"))
    return content


def create(layout: Layout, objects: Sequence[dict[str, Any]]) -> None:
    """Create objects; the API server validates them. Fails if one exists."""
    content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    run(layout, "create", "--validate=false", "-f", "-", stdin=json.dumps(content))


def set_fake_devices(layout: Layout, node: str) -> None:
    """Add ``FAKE_DEVICES`` to the status of a registered node."""
    patch = json.dumps({"status": {"capacity": FAKE_DEVICES, "allocatable": FAKE_DEVICES}})
    words = ("patch", "node", node, "--subresource=status", "--type=merge")
    run(layout, *words, f"--patch={patch}")


def node_ready(layout: Layout, node: str) -> bool:
    """Return whether a node is Ready; False if the API server does not answer."""
    try:
        content = get(layout, "node", node)
    except Problem:
        return False
    conditions = content.get("status", {}).get("conditions", [])
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def api_ready(layout: Layout) -> bool:
    try:
        return run(layout, "get", "--raw", "/readyz", "--request-timeout=5s") == "ok"
    except Problem:
        return False
