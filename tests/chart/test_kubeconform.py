"""kubeconform over the rendered text, with the schemas of the pinned modules.

test_crd.py judges parsed objects on any machine, in seconds; here the text itself is read by the
program that the field uses, so that a key that is there twice is found, and with the API server's
own OpenAPI. It runs where `make e2e` built kubeconform. No schema is fetched or committed: they are
made from the modules of Kubernetes and JobSet.
"""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import prometheus_operator
from tests.chart.fabrics import PROFILES, selected
from tests.chart.helm import BASE, CHART, ROOT, Document, merged, template, text_of, walk
from tests.chart.test_crd import FULL, closed_schema, schema
from tests.chart.test_needs import NEUTRAL, rows
from tests.chart.test_versions import FILES
from tests.e2e.cluster import modules

PROGRAM = ROOT / ".tools" / "cluster" / "bin" / "kubeconform"
MODULE = ROOT / "tests" / "e2e" / "tools" / "kubernetes"
MONITOR = "kind: PodMonitor"
INSTALLED = [*FILES, *sorted((CHART / "ci").glob("*-values.yaml"))]
KINDS = {
    "configmap-v1": ("", "ConfigMap"),
    "persistentvolumeclaim-v1": ("", "PersistentVolumeClaim"),
    "pod-v1": ("", "Pod"),
    "job-batch-v1": ("batch", "Job"),
    "serviceaccount-v1": ("", "ServiceAccount"),
    "networkpolicy-networking-v1": ("networking.k8s.io", "NetworkPolicy"),
    "limitrange-v1": ("", "LimitRange"),
    "role-rbac-v1": ("rbac.authorization.k8s.io", "Role"),
    "rolebinding-rbac-v1": ("rbac.authorization.k8s.io", "RoleBinding"),
}
"""Kinds that the chart renders, and those that JobSet creates; others are refused."""

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists() or shutil.which("go") is None,
    reason="no .tools/cluster/bin/kubeconform, or no go for the schemas: `make e2e` builds it",
)


@lru_cache(maxsize=1)
def definitions() -> Document:
    """Return the API's definitions, unknown fields refused, from the version that go.mod pins."""
    module = modules.folder("k8s.io/kubernetes", MODULE)
    openapi = module / "api" / "openapi-spec" / "swagger.json"
    found: Document = json.loads(openapi.read_text(encoding="utf-8"))["definitions"]
    for _, node in walk(found):
        if isinstance(node, dict) and isinstance(node.get("properties"), dict):
            node.setdefault("additionalProperties", False)
        if isinstance(node, dict) and node.get("format") == "int-or-string":
            node["type"] = ["integer", "string"]
    return found


def reached(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with all that it refers to."""
    taken: dict[str, Any] = {}
    names = {name}
    while names:
        taken |= {name: found[name] for name in names}
        nodes = [pair for name in names for pair in walk(found[name])]
        refs = {str(node).rpartition("/")[2] for path, node in nodes if path.endswith("$ref")}
        names = refs - taken.keys()
    return taken


def core(group: str, kind: str) -> Document:
    """Return the schema of a kind of the API on its own."""
    wanted = {"group": group, "version": "v1", "kind": kind}
    [found] = [
        known
        for known, definition in definitions().items()
        if wanted in definition.get("x-kubernetes-group-version-kind", [])
    ]
    return {
        # The file's name is in lower case, so it does not distinguish `Configmap` from `ConfigMap`.
        "allOf": [{"$ref": f"#/definitions/{found}"}, {"properties": {"kind": {"enum": [kind]}}}],
        "definitions": reached(found, definitions()),
    }


@pytest.fixture(scope="session")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the schemas under the names that kubeconform looks for."""
    folder = tmp_path_factory.mktemp("schemas")
    named = {name: core(*kind) for name, kind in KINDS.items()}
    named["jobset-jobset-v1alpha2"] = schema()
    if (monitors := prometheus_operator.pod_monitors()) is not None:
        named["podmonitor-monitoring-v1"] = closed_schema(monitors, "v1")
    for name, content in named.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def check(texts: Mapping[str, str], schemas: Path, folder: Path) -> dict[str, list[str]]:
    """Return what is wrong in each text, all of them judged by one process.

    A text whose objects are not all judged is wrong, too.
    """
    files = {str(folder / f"{number}.yaml"): name for number, name in enumerate(texts)}
    for file, name in files.items():
        Path(file).write_text(with_jobs(texts[name]), encoding="utf-8")
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [str(PROGRAM), "-strict", "-verbose", "-output", "json", "-schema-location", location]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=60)
    found: dict[str, list[str]] = {name: [] for name in texts}
    judged = Counter[str]()
    for each in json.loads(done.stdout)["resources"]:
        name = files[each["filename"]]
        judged[name] += 1
        if each["status"] != "statusValid":
            found[name].append(f"{each['kind']} {each['status']} {each['msg']}")
    assert (done.returncode == 0) == (not any(found.values())), done.stderr
    for name, text in texts.items():
        if not judged[name] > text.count("\nkind: ") >= 2:
            found[name].append(f"only {judged[name]} objects were judged")
    return found


def with_jobs(text: str) -> str:
    """Return the objects with the Jobs that JobSet would make of them.

    JobSet's CRD leaves the metadata of jobs and pods open; the API's own Job does not.
    """
    made = [
        {"apiVersion": "batch/v1", "kind": "Job", **job["template"]}
        for document in yaml.safe_load_all(text)
        if document and document["kind"] == "JobSet"
        for job in document["spec"]["replicatedJobs"]
    ]
    return "\n---\n".join([text, *map(json.dumps, made)])


@pytest.fixture(scope="module")
def needs() -> dict[str, str]:
    """Render the requirements of clusters, by their rows in the page."""
    return {need: template(merged(NEUTRAL, values)) for need, values in rows()}


def test_every_rendered_object_is_valid(
    needs: dict[str, str], schemas: Path, tmp_path: Path
) -> None:
    """``test_fabrics.py`` judges the networks as Helm 4 renders them."""
    texts = {file.stem: text_of(file) for file in INSTALLED}
    texts |= {p: template(merged(selected(p)), helm="helm3") for p in PROFILES}
    texts |= {"least": template(BASE), "every option": template(merged(FULL))}
    texts |= {need: text for need, text in needs.items() if MONITOR not in text}
    assert {name: wrong for name, wrong in check(texts, schemas, tmp_path).items() if wrong} == {}


def test_every_pod_monitor_is_valid(needs: dict[str, str], schemas: Path, tmp_path: Path) -> None:
    if prometheus_operator.pod_monitors() is None:
        pytest.skip(f"Go cannot fetch {prometheus_operator.MODULE}, which has the CRD")
    texts = {need: text for need, text in needs.items() if MONITOR in text}
    found = check(texts, schemas, tmp_path)
    assert found and found == {name: [] for name in texts}


def test_a_planted_mistake_is_found(schemas: Path, tmp_path: Path) -> None:
    planted = {
        "enableServiceLink": ("enableServiceLinks:", "enableServiceLink:"),
        "immutible": ("immutable: true", "immutable: true\nimmutible: true"),
        "immutable": ("immutable: true", "immutable: true\nimmutable: true"),
        "Configmap": ("kind: ConfigMap", "kind: Configmap"),
        "ConfigMop": ("kind: ConfigMap", "kind: ConfigMop"),
        "backoffLimit": ("backoffLimit: 0", "backoffLimit: none"),
        "lables": ("(?m)^( {12,})labels:", r"\1lables:"),
    }
    texts = {word: re.sub(*both, template(BASE), count=1) for word, both in planted.items()}
    assert template(BASE) not in texts.values()
    found = check(texts, schemas, tmp_path)
    assert [word for word in planted if not any(word in each for each in found[word])] == []
