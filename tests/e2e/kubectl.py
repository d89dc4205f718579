"""kubectl with its program, cluster and namespace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tests.e2e import api
from tests.e2e.api import Object, Refused


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    binary: Path
    kubeconfig: Path
    namespace: str = ""
    """Namespace of namespaced objects; empty: kubectl's default."""

    def at(self, namespace: str) -> Kubectl:
        return replace(self, namespace=namespace)

    def argv(self, *words: str) -> list[str]:
        scope = [f"--namespace={self.namespace}"] if self.namespace else []
        return [str(self.binary), f"--kubeconfig={self.kubeconfig}", *scope, *words]

    def run(self, *words: str, stdin: str | None = None, seconds: float = 120) -> str:
        """Run kubectl; return its output."""
        done = subprocess.run(
            self.argv(*words),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        if done.returncode:
            raise Refused(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, kind: str, name: str) -> Object:
        found = self.find(kind, name)
        if found is None:
            raise Refused(f"{kind} {name!r} not found")
        return found

    def find(self, kind: str, name: str) -> Object | None:
        return self._read(kind, f"/{quote(name)}")

    def items(self, kind: str, selector: str = "") -> list[Object]:
        found: list[Object] = (self._read(kind, f"?labelSelector={quote(selector)}") or {})["items"]
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    def _read(self, kind: str, end: str) -> Object | None:
        server = api.connect(self.kubeconfig)
        return server.read(server.path(kind, self.namespace or "default") + end)

    def apply(self, objects: Iterable[Object]) -> None:
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.run(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(content)
        )

    def dry_run(self, objects: Iterable[Object], validate: str) -> subprocess.CompletedProcess[str]:
        """Have the API server judge objects, each on its own, as if they were created."""
        content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        words = self.argv("create", "--dry-run=server", validate, "-f", "-")
        return subprocess.run(
            words, input=json.dumps(content), capture_output=True, text=True, check=False
        )

    def delete(self, *words: str, wait: bool = True, seconds: float = 90) -> None:
        limits = (f"--wait={str(wait).lower()}", f"--timeout={seconds:.0f}s")
        self.run("delete", *words, "--ignore-not-found", *limits, seconds=seconds + 30)
