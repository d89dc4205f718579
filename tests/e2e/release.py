"""Helm releases through the command line: install, upgrade, test, uninstall."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.helm import CHART, ROOT
from tests.e2e.space import Space
from tests.e2e.until import until

HELM4 = ROOT / ".tools" / "bin" / "helm"
HELM3 = ROOT / ".tools" / "helm3" / "helm"
A100 = ROOT / "values" / "a100-2node.yaml"
CPU = ROOT / "values" / "e2e.yaml"

Values = Mapping[str, Any]


class Refused(Exception):
    """Error of Helm, with its message."""


@dataclass(frozen=True, kw_only=True)
class Release:
    name: str
    space: Space
    files: Sequence[Path] = ()
    values: Values
    helm: Path = HELM4
    chart: Path | str = CHART
    """Folder or package of the chart, or its address in a registry."""
    source: Sequence[str] = ()
    """Options of Helm that say how the chart is fetched."""

    def install(self, *words: str) -> str:
        return self._with_values("install", *words)

    def upgrade(self, changes: Values | None = None, *words: str) -> str:
        return self._with_values("upgrade", *words, changes=changes)

    def manifest(self, *words: str, changes: Values | None = None) -> str:
        """Return the rendered manifest as text, with values that override the release's."""
        return self._with_values("template", *words, changes=changes)

    def render(self) -> list[dict[str, Any]]:
        return [item for item in yaml.safe_load_all(self.manifest()) if item]

    def test(self, seconds: float) -> str:
        """Run ``helm test``; return its output, with Helm 4 including the pod's log."""
        # Helm 3 reads the log after it has deleted the succeeded pod, and fails.
        logs = [] if self.helm == HELM3 else ["--logs"]
        return self._run("test", self.name, *logs, "--timeout", f"{seconds:.0f}s")

    def uninstall(self) -> None:
        """Uninstall as the notes of the chart say; no object of the release is left.

        Helm 4 fails with what it takes to exist still, if it learns too late that it is gone.
        """
        manifest = self._run("get", "manifest", self.name)
        wait = ("--cascade", "foreground", "--wait", "--timeout", "120s")
        try:
            self._run("uninstall", self.name, *wait)
        except Refused as refused:
            if "still exists" not in str(refused):
                raise
        words = ("get", "--filename=-", "--ignore-not-found", "--output=name")
        kubectl = self.space.kubectl
        until("the release is gone", lambda: not kubectl.run(*words, stdin=manifest), seconds=20)

    def _with_values(self, verb: str, *words: str, changes: Values | None = None) -> str:
        layers = [yaml.safe_dump(dict(layer)) for layer in (self.values, changes) if layer]
        files = [*self.files]
        for number, text in enumerate(layers):
            file = self.space.folder / f"{self.name}-{number}.yaml"
            file.write_text(text, encoding="utf-8")
            files.append(file)
        given = [word for file in files for word in ("--values", str(file))]
        return self._run(verb, self.name, str(self.chart), *self.source, *given, *words)

    def _run(self, *words: str) -> str:
        scope = (f"--namespace={self.space.name}", f"--kubeconfig={self.space.kubectl.kubeconfig}")
        done = subprocess.run(
            [str(self.helm), *words, *scope],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=clean(self.space.folder),
        )
        if done.returncode:
            raise Refused(done.stdout + done.stderr)
        return done.stdout


def clean(folder: Path) -> dict[str, str]:
    """Return an environment with only this cluster and a separate Helm home."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HELM_")}
    kept.pop("KUBECONFIG", None)
    homes = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
    return kept | {name: str(folder / name.lower()) for name in homes}
