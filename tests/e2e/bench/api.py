"""The API server through kubectl: bulk changes, raw GET, and a watch as lines of JSON."""

import json
import subprocess
from typing import Any

from tests.e2e.cluster.kubectl import binary
from tests.e2e.cluster.layout import Layout


def command(layout: Layout, *words: str) -> list[str]:
    return [str(binary(layout)), f"--kubeconfig={layout.kubeconfig}", *words]


def kubectl(layout: Layout, *words: str, given: str = "") -> str:
    argv = command(layout, *words)
    return subprocess.run(argv, input=given, text=True, check=True, stdout=subprocess.PIPE).stdout


def get(layout: Layout, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kubectl(layout, "get", "--raw", path))
    return answer


def watch(layout: Layout, path: str) -> subprocess.Popen[str]:
    """Start a watch with one event per line of stdout."""
    argv = command(layout, "get", "--raw", f"{path}?watch=true&timeoutSeconds=3600")
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def apply(layout: Layout, items: list[dict[str, Any]]) -> None:
    kubectl(layout, "apply", "--server-side", "--filename=-", given=_list(items))


def patch(layout: Layout, name: str, change: dict[str, Any]) -> None:
    kubectl(layout, "patch", name, "--type=merge", f"--patch={json.dumps(change)}")


def delete(layout: Layout, items: list[dict[str, Any]]) -> None:
    """Delete objects in reverse order and wait until they are gone."""
    words = ("delete", "--ignore-not-found", "--wait", "--filename=-")
    kubectl(layout, *words, given=_list(items[::-1]))


def _list(items: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
