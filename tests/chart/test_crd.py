"""Validation as by the API server: the JobSet's CRD and the core kinds, unknown fields refused."""

import copy
import shutil
from functools import lru_cache
from pathlib import Path

import kubernetes_validate
import pytest
from jsonschema import Draft7Validator

from launchers.yaml_file import read_yaml
from tests.chart.helm import KUBERNETES, ROOT, Document, jobs, kind, render, template_file, walk
from tests.e2e.cluster import modules
from tests.e2e.cluster.kind import config as kind_config

MODULE = "sigs.k8s.io/jobset@v0.12.0"
CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
SUPPORTED = (KUBERNETES.removesuffix(".0"), max(kind_config.IMAGES))
"""The lowest supported Kubernetes, and the newest that is tested."""
FULL: Document = read_yaml(Path(__file__).with_name("every_option.yaml"))
"""Every optional part at once."""


@lru_cache(maxsize=1)
def resource() -> Document:
    """Return the CRD, without a conversion, which needs JobSet's webhook."""
    if shutil.which("go") is None:
        pytest.skip("no go command to fetch JobSet's CRD")
    file = modules.folder(MODULE, ROOT.parent) / CRD
    crd: Document = read_yaml(file)
    crd["spec"].pop("conversion", None)
    return crd


@lru_cache(maxsize=1)
def schema() -> Document:
    return closed_schema(resource(), "v1alpha2")


def closed_schema(crd: Document, name: str) -> Document:
    """Return the schema of a version of a CRD with unknown fields refused."""
    [version] = [v for v in crd["spec"]["versions"] if v["name"] == name]
    closed: Document = copy.deepcopy(version["schema"]["openAPIV3Schema"])
    for _, node in walk(closed):
        if isinstance(node, dict) and isinstance(node.get("properties"), dict):
            node.setdefault("additionalProperties", False)
    closed["properties"]["metadata"] = {"type": "object"}
    return closed


def mistakes(jobset: Document) -> list[str]:
    found = Draft7Validator(schema()).iter_errors(jobset)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def cases() -> list[tuple[str, list[Document]]]:
    files = sorted((ROOT / "values").glob("*.yaml"))
    shipped = [(file.stem, template_file(file)) for file in files]
    return [*shipped, ("least", render()), ("full", render(FULL))]


def test_every_rendered_object_is_valid_and_no_list_names_anything_twice() -> None:
    for name, documents in cases():
        assert mistakes(kind(documents, "JobSet")) == [], name
        for job in jobs(documents).values():
            validate_job(name, job)
        for document in documents:
            if document["kind"] != "JobSet":
                validate(document)
        for path, node in walk(documents):
            if path.endswith((".env", ".volumes", ".volumeMounts")) and isinstance(node, list):
                key = "mountPath" if path.endswith("volumeMounts") else "name"
                names = [entry[key] for entry in node]
                assert len(names) == len(set(names)), f"{name}: {path}"


def test_a_planted_typo_is_found() -> None:
    jobset = kind(copy.deepcopy(render()), "JobSet")
    container = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container["containers"][0]["enw"] = []
    assert any("enw" in mistake for mistake in mistakes(jobset))


def validate_job(name: str, spec: Document) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    validate(job)


def validate(document: Document) -> None:
    for version in SUPPORTED:
        kubernetes_validate.validate(document, version, strict=True)
