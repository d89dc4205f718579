"""A cluster that cannot run the chart is refused with one line before any change."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.helm import ROOT
from scripts.problem import Problem
from tests.e2e import foreign, preflight
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import manifests
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.until import until

ELSEWHERE = """
import sys
from types import SimpleNamespace
import pytest
from tests.e2e.cluster import cluster
from pathlib import Path
cluster.connect = lambda: SimpleNamespace(layout=SimpleNamespace(kubeconfig=Path(sys.argv[1])))
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/e2e/test_names.py"]))
"""
"""Program that runs a part of the suite against the cluster of a kubeconfig."""


def refusal(kubectl: Kubectl) -> str:
    """Return the line about a cluster."""
    with pytest.raises(Problem) as problem:
        preflight.check(kubectl)
    text = str(problem.value)
    assert len(text.splitlines()) == 1
    return text


def crds(tool: str) -> list[Object]:
    """Return the released CRDs of JobSet or Kueue."""
    found = manifests.rewrite(manifests.released(Layout(), tool), "https://127.0.0.1", "")
    kept = [item for item in found if item["kind"] == "CustomResourceDefinition"]
    for item in kept:
        item["spec"].pop("conversion", None)
    return kept


def install(kubectl: Kubectl, objects: list[Object]) -> None:
    """Install CRDs, and wait until they are served."""
    kubectl.apply(objects)
    for item in objects:
        name = item["metadata"]["name"]
        until(f"{name} is served", lambda n=name: established(kubectl, n), seconds=30)  # type: ignore[misc]


def established(kubectl: Kubectl, name: str) -> bool:
    """Return whether a CRD is served."""
    status = kubectl.get("customresourcedefinition", name).get("status", {})
    found = {c["type"]: c["status"] for c in status.get("conditions") or []}
    return found.get("Established") == "True"


@pytest.fixture(scope="module")
def bare(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl for an API server without JobSet and Kueue."""
    layout = Layout()
    if not (layout.pki / "ca.crt").exists():
        pytest.skip("the kind backend has no second API server")
    with foreign.api_server(layout, kubectl, tmp_path_factory.mktemp("foreign")) as made:
        yield made


def test_no_cluster_answers(kubectl: Kubectl, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    kubectl.run(
        "config", "set-cluster", "c", "--server=https://127.0.0.1:9", f"--kubeconfig={config}"
    )
    text = refusal(replace(kubectl, kubeconfig=config))
    assert text.startswith("no cluster answers")
    assert "run `make cluster`" in text


def test_what_is_missing_old_or_stale_is_named_in_turn(bare: Kubectl) -> None:
    """One test, because each remedy leads to the next refusal."""
    assert refusal(bare).startswith("no JobSet in the cluster; install JobSet >= 0.10")
    stale = copy.deepcopy(crds("jobset"))
    for item in stale:
        forget(item, "onJobFailureMessagePatterns")
    install(bare, stale)
    assert refusal(bare).startswith("no Kueue in the cluster; install Kueue >= 0.15")
    old = [item for item in copy.deepcopy(crds("kueue")) if keep_first_version(item)]
    install(bare, old)
    assert refusal(bare).startswith("Kueue is too old: it serves v1beta1, not v1beta2;")
    install(bare, crds("kueue"))
    served(bare)
    text = refusal(bare)
    assert text.startswith("the CRD of JobSet is too old: it drops ")
    assert "onJobFailureMessagePatterns" in text
    assert "apply its CRDs" in text
    install(bare, crds("jobset"))
    until("the whole CRD is served", lambda: fit(bare), seconds=30)


def test_the_suite_says_it_in_one_line_and_ends(bare: Kubectl, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    bare.run("config", "set-cluster", "c", "--server=https://127.0.0.1:9", f"--kubeconfig={config}")
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    reported = [line for line in done.stdout.splitlines() if "no cluster answers" in line]
    assert done.returncode == 3, done.stdout
    assert len(reported) == 1
    assert "Error" not in done.stdout
    assert "passed" not in done.stdout


def forget(node: object, name: str) -> None:
    """Remove all occurrences of a field from a CRD's schema."""
    if isinstance(node, dict):
        node.pop(name, None)
    for below in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        forget(below, name)


def keep_first_version(item: Object) -> bool:
    """Keep only v1beta1 of a CRD; return whether it has that version."""
    versions = [v for v in item["spec"]["versions"] if v["name"] == "v1beta1"]
    for version in versions:
        version["storage"] = version["served"] = True
    item["spec"]["versions"] = versions
    return bool(versions)


def served(kubectl: Kubectl) -> None:
    """Wait until Kueue's new version is served."""
    path = "/apis/kueue.x-k8s.io/v1beta2"
    until("v1beta2 is served", lambda: path in kubectl.run("get", "--raw", "/"), seconds=30)


def fit(kubectl: Kubectl) -> bool:
    """Return whether a cluster meets the requirements."""
    try:
        preflight.check(kubectl)
    except Problem:
        return False
    return True
