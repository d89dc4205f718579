"""Validation as by the API server: the JobSet's CRD and the core kinds, unknown fields refused."""

from __future__ import annotations

import copy
import shutil
from functools import lru_cache

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

from tests.chart.helm import KUBERNETES, ROOT, Document, render, template_file, walk
from tests.e2e.cluster import modules
from tests.e2e.cluster.kind import config as kind_config

MODULE = "sigs.k8s.io/jobset@v0.12.0"
CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
SUPPORTED = (KUBERNETES.removesuffix(".0"), max(kind_config.IMAGES))
"""The lowest supported Kubernetes, and the newest that is tested."""
FULL: Document = {
    "nodes": 4,
    "gpusPerNode": 4,
    "gpuResource": "nvidia.com/gpu.shared",
    "resources": {"limits": {"memory": "600Gi", "example.com/nic": 2}, "requests": {"cpu": 90}},
    "stages": {
        "placement": "jobs",
        "convert": {"skip": True},
        "resources": {"limits": {"memory": "30Gi", "cpu": 4}},
    },
    "recipe": {
        "pairWeights": "pack",
        "saving": "blocking",
        "saveMinutes": 7.5,
        "maxDroppedRows": 0.25,
        "allowVersionChange": True,
        "adapterReference": "base",
        "checkFirstStep": False,
        "pairLedger": False,
        "args": {"report_to": ["tensorboard"], "megatron_extra_kwargs": {"eps": 5e-7}, "lr": 5e-6},
    },
    "sharedMemory": {"sizeLimit": "20Gi"},
    "gpuModel": "h200",
    "preflight": {
        "skipChecks": ["pairs", "disk"],
        "strict": True,
        "nodeFloorGBs": 187.5,
        "deadlineSeconds": 90,
    },
    "rendezvous": {"masterPort": 30000, "gangPort": 30001, "deadlineSeconds": 60},
    "restarts": {
        "max": 7,
        "inPlace": 2,
        "standby": True,
        "nodeLostSeconds": 10,
        "hang": {"floors": {"step": 120}},
    },
    "test": {"deadlineSeconds": 9, "resources": {"requests": {"cpu": 1}}},
    "terminationGracePeriodSeconds": 61,
    "ttlSecondsAfterFinished": 3600,
    "code": {"url": "ssh://git@git.example.com/a/b", "ref": "v1", "existingSecret": "git"},
    "workspace": {
        "mountPath": "/data",
        "subPath": "team/a",
        "existingClaim": None,
        "pvc": {"size": "1Ti", "storageClassName": "fast"},
    },
    "network": {
        "profile": "ib-shared",
        "resourceName": "rdma/other",
        "resourceCount": 3,
        "env": {"NCCL_NET": "network", "NCCL_IB_HCA": "mlx5"},
    },
    "kueue": {
        "queue": "team",
        "priorityClass": "high",
        "topology": {"mode": "required", "key": "rack", "slice": {"size": 2, "key": "host"}},
        "maxExecTimeSeconds": 86400,
        "forceDeleteOnNodeFailure": True,
    },
    "secrets": {
        "hf": {"existingSecret": "hub"},
        "modelscope": {"existingSecret": "other", "key": "k"},
    },
    "extraEnv": {
        "A": 1,
        "NCCL_NET": "extra",
        "B": {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    },
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "image": {
        "repository": "registry.example.com:5000/team/swift",
        "tag": "v1",
        "digest": "sha256:" + "0" * 64,
        "pullPolicy": "Always",
        "pullSecrets": ["registry"],
    },
    "nodeSelector": {"pool": "a100"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podAnnotations": {"example.com/a": "1"},
    "podLabels": {"team": "a"},
    "serviceAccountName": "runner",
    "priorityClassName": "batch",
    "schedulerName": "other",
    "podSecurityContext": {"fsGroup": 2000, "supplementalGroups": [7], "runAsGroup": None},
    "securityContext": {
        "readOnlyRootFilesystem": True,
        "capabilities": {"add": ["NET_RAW"], "drop": ["CHOWN", "ALL"]},
    },
    "debug": {"ptrace": True, "ncclDebug": "INFO", "holdMinutes": 30},
}
"""Every optional part at once."""


@lru_cache(maxsize=1)
def resource() -> Document:
    """Return the CRD, without a conversion, which needs JobSet's webhook."""
    if shutil.which("go") is None:
        pytest.skip("no go command to fetch JobSet's CRD")
    file = modules.folder(MODULE, ROOT.parent) / CRD
    crd: Document = yaml.safe_load(file.read_text("utf-8"))
    crd["spec"].pop("conversion", None)
    return crd


@lru_cache(maxsize=1)
def schema() -> Document:
    """Return the schema of JobSet's CRD with unknown fields refused."""
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


def test_every_rendered_jobset_is_valid() -> None:
    for name, documents in cases():
        [jobset] = [d for d in documents if d["kind"] == "JobSet"]
        assert mistakes(jobset) == [], name


def test_a_planted_typo_is_found() -> None:
    [jobset] = [d for d in copy.deepcopy(render()) if d["kind"] == "JobSet"]
    container = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container["containers"][0]["enw"] = []
    assert any("enw" in mistake for mistake in mistakes(jobset))


def test_core_kinds_are_valid() -> None:
    for name, documents in cases():
        for document in documents:
            if document["kind"] == "JobSet":
                for job in document["spec"]["replicatedJobs"]:
                    validate_job(name, job["template"]["spec"])
            else:
                validate(document)


def validate_job(name: str, spec: Document) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    validate(job)


def validate(document: Document) -> None:
    for version in SUPPORTED:
        kubernetes_validate.validate(document, version, strict=True)


def test_no_list_names_anything_twice() -> None:
    for name, documents in cases():
        for path, node in walk(documents):
            if path.endswith((".env", ".volumes", ".volumeMounts")) and isinstance(node, list):
                key = "mountPath" if path.endswith("volumeMounts") else "name"
                names = [entry[key] for entry in node]
                assert len(names) == len(set(names)), f"{name}: {path}"
