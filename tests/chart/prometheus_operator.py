"""CRD of PodMonitors, from a release of Prometheus's operator as a Go module."""

from functools import lru_cache
from pathlib import Path

from launchers.yaml_file import read_yaml
from scripts.helm import ROOT
from scripts.problem import Problem
from tests.chart.helm import Document
from tests.e2e.cluster import modules

MODULE = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
FILE = Path("example", "prometheus-operator-crd", "monitoring.coreos.com_podmonitors.yaml")


@lru_cache(maxsize=1)
def pod_monitors() -> Document | None:
    """Return the CRD; None if Go cannot fetch the module."""
    try:
        file = modules.folder(MODULE, ROOT.parent) / FILE
    except Problem:
        return None
    found: Document = read_yaml(file)
    return found
