"""The sample queues of values/kueue/: valid, and wide enough for the shipped values."""

import copy
import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.chart.helm import ROOT, Document, kind, template_file
from tests.chart.test_crd import closed_schema
from tests.e2e.cluster import modules

FOLDER = ROOT / "values" / "kueue"
BASES = "config/components/crd/bases/kueue.x-k8s.io_{}.yaml"
PLURALS = {
    "Topology": "topologies",
    "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
UNITS = {"": 1, "m": 0.001, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def samples() -> list[Document]:
    files = sorted(FOLDER.glob("*.yaml"))
    return [o for file in files for o in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def sample(kind: str) -> Document:
    [found] = [o for o in samples() if o["kind"] == kind]
    return found


@lru_cache(maxsize=1)
def module() -> Path:
    """Return the sources of the Kueue that the tests pin."""
    if shutil.which("go") is None:
        pytest.skip("no go command to fetch Kueue's CRDs")
    pins = (ROOT / "tests" / "e2e" / "tools" / "kueue" / "go.mod").read_text(encoding="utf-8")
    [version] = re.findall(r"sigs\.k8s\.io/kueue (v\S+)", pins)
    return modules.folder(f"sigs.k8s.io/kueue@{version}", ROOT.parent)


def mistakes(document: Document) -> list[str]:
    """Return what the CRD says, unknown fields refused."""
    crd = yaml.safe_load((module() / BASES.format(PLURALS[document["kind"]])).read_text())
    found = Draft7Validator(closed_schema(crd, "v1beta2")).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def amount(quantity: Any) -> float:
    match = re.fullmatch(r"(\d+)(\D*)", str(quantity))
    assert match, quantity
    return int(match[1]) * UNITS[match[2]]


def test_every_object_is_valid() -> None:
    for document in samples():
        assert document["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert mistakes(document) == [], document["kind"]
    planted = copy.deepcopy(sample("LocalQueue"))
    planted["spec"]["clusterQeueu"] = "gpu"
    assert mistakes(planted)


def test_the_objects_name_each_other() -> None:
    names = {o["kind"]: o["metadata"]["name"] for o in samples()}
    [group] = sample("ClusterQueue")["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == [names["ResourceFlavor"]]
    assert sample("ResourceFlavor")["spec"]["topologyName"] == names["Topology"]
    assert sample("LocalQueue")["spec"]["clusterQueue"] == names["ClusterQueue"]
    priorities = [o for o in samples() if o["kind"] == "WorkloadPriorityClass"]
    values = {o["metadata"]["name"]: o["value"] for o in priorities}
    assert values["high"] > 0 > values["low"]


@pytest.mark.parametrize("name", ["a100-2node", "e2e"])
def test_the_quota_holds_the_shipped_run(name: str) -> None:
    documents = template_file(ROOT / "values" / f"{name}.yaml")
    jobset = kind(documents, "JobSet")
    label = jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    assert label == sample("LocalQueue")["metadata"]["name"]
    [group] = sample("ClusterQueue")["spec"]["resourceGroups"]
    quotas = {r["name"]: amount(r["nominalQuota"]) for r in group["flavors"][0]["resources"]}
    assert list(quotas) == group["coveredResources"]
    [job] = jobset["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    requests = spec["template"]["spec"]["containers"][0]["resources"]["requests"]
    for resource, quantity in requests.items():
        assert amount(quantity) * spec["completions"] <= quotas[resource], resource
    annotations = spec["template"]["metadata"]["annotations"]
    levels = [level["nodeLabel"] for level in sample("Topology")["spec"]["levels"]]
    assert annotations["kueue.x-k8s.io/podset-preferred-topology"] == levels[0]
    assert levels[-1] == "kubernetes.io/hostname"
