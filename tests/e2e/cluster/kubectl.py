"""Calls of kubectl: the cluster's own, or the one on PATH."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.problem import Problem
from tests.e2e.cluster.layout import Layout


def binary(layout: Layout) -> Path:
    """Return kubectl.

    Raises:
        Problem: there is none.
    """
    own = layout.bin / "kubectl"
    found = own if own.exists() else Path(shutil.which("kubectl") or "")
    if not found.name:
        raise Problem("no kubectl; run `make cluster`, or install it")
    return found


def run(layout: Layout, *words: str, stdin: str | None = None) -> str:
    """Run kubectl as the administrator of the running cluster and return its output.

    Raises:
        Problem: kubectl failed; the message is its last line.
    """
    argv = [str(binary(layout)), f"--kubeconfig={layout.kubeconfig}", *words]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Problem(f"kubectl {' '.join(words[:2])} failed: {lines[-1]}")
    return done.stdout


def get(layout: Layout, *words: str) -> dict[str, Any]:
    """Return what ``kubectl get ... -o json`` prints."""
    content: dict[str, Any] = json.loads(run(layout, "get", *words, "-o", "json"))
    return content


def create(layout: Layout, objects: Sequence[dict[str, Any]]) -> None:
    """Create objects that are not there yet; the API server validates them."""
    content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    run(layout, "create", "--validate=false", "-f", "-", stdin=json.dumps(content))


def ready(layout: Layout, node: str) -> bool:
    """Return whether the API server says that a node is ready; False if it doesn't answer."""
    try:
        content = get(layout, "node", node)
    except Problem:
        return False
    conditions = content.get("status", {}).get("conditions", [])
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
