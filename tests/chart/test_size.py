"""A release must fit in what Kubernetes stores: its objects, and Helm's own record, a Secret."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from pathlib import Path

import pytest

from tests.chart.helm import ROOT, Document, call, kind, layers, objects

USERS = ROOT / "values" / "a100-2node.yaml"
FILES = sorted((ROOT / "values").glob("*.yaml"))
LIMIT = 2**20
"""Bytes of a Secret's data (MaxSecretSize in Kubernetes pkg/apis/core/types.go)."""
ROOM = 0.75
"""Share of it that a release may use; users' recipes and notes come on top."""
ANNOTATIONS = 2**18
"""Bytes of all annotations of an object (TotalAnnotationSizeLimitB in apimachinery
pkg/api/validation/objectmeta.go)."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Client-side apply, which is also Argo CD's default, keeps the whole object in this one."""


def record(archive: Path, manifest: str) -> int:
    """Return the bytes of a release's record: gzipped JSON with the chart's files in base64.

    Helm's pkg/storage/driver/util.go; within 1.5 % of what `helm install` was seen to store.
    """
    with tarfile.open(archive) as tar:
        opened = [tar.extractfile(each) for each in tar.getmembers() if each.isfile()]
        files = [base64.b64encode(each.read()).decode() for each in opened if each is not None]
    document = json.dumps({"chart": {"files": files}, "manifest": manifest})
    return len(base64.b64encode(gzip.compress(document.encode(), 9)))


def annotated(item: Document) -> int:
    """Return the bytes of an object's annotations after `kubectl apply` from the client's side."""
    found: dict[str, str] = item["metadata"].get("annotations") or {}
    applied = json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    return sum(
        len(k.encode()) + len(v.encode()) for k, v in {**found, LAST_APPLIED: applied}.items()
    )


def test_a_release_fits_in_helms_record(frozen: Path, tmp_path: Path) -> None:
    manifest = call("template", "run", str(frozen), *layers(USERS)).stdout
    call("package", str(frozen), "--destination", str(tmp_path))
    [archive] = tmp_path.glob("*.tgz")
    used = record(archive, manifest) / LIMIT
    assert used < ROOM, f"the record takes {used:.1%} of what Kubernetes stores"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_client_side_apply_takes_every_object(file: Path, frozen: Path) -> None:
    manifest = call("template", "run", str(frozen), *layers(file)).stdout
    sizes = {item["kind"]: annotated(item) for item in objects(manifest)}
    assert sizes["ConfigMap"] == max(sizes.values()) < ANNOTATIONS


def test_the_last_applied_object_is_what_fills_the_annotations(frozen: Path) -> None:
    manifest = call("template", "run", str(frozen), *layers(USERS)).stdout
    config = kind(objects(manifest), "ConfigMap")
    config["data"]["more"] = "x" * (ANNOTATIONS - annotated(config))
    assert annotated(config) > ANNOTATIONS
