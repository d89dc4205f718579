"""CRD of PodMonitors, from a release of Prometheus's operator as a Go module."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path

import yaml

from scripts.helm import ROOT
from tests.chart.helm import Document

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
FILE = Path("example", "prometheus-operator-crd", "monitoring.coreos.com_podmonitors.yaml")


@lru_cache(maxsize=1)
def pod_monitors() -> Document | None:
    """Return the CRD; None if Go cannot fetch the module."""
    command = ["go", "mod", "download", "-json", MODULE]
    done = subprocess.run(command, cwd=ROOT.parent, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return None
    text = (Path(json.loads(done.stdout)["Dir"]) / FILE).read_text(encoding="utf-8")
    found: Document = yaml.safe_load(text)
    return found
