"""A release must fit in what Kubernetes stores: its objects, and Helm's own record, a Secret."""

from __future__ import annotations

import base64
import gzip
import json
import warnings
from pathlib import Path

import pytest

from scripts import archive
from tests.chart.helm import ROOT, Document, call, kind, layers, objects

USERS = ROOT / "values" / "a100-2node.yaml"
FILES = sorted((ROOT / "values").glob("*.yaml"))
LIMIT = 2**20
"""Bytes of a Secret's data (MaxSecretSize in Kubernetes pkg/apis/core/types.go)."""
TARGET = 0.6
"""Share of it that a release of this checkout should take; users' recipes and notes come on top."""
ROOM = 0.75
"""Share of it at which the test fails."""
ANNOTATIONS = 2**18
"""Bytes of all annotations of an object (TotalAnnotationSizeLimitB in apimachinery
pkg/api/validation/objectmeta.go)."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Client-side apply, which is also Argo CD's default, keeps the whole object in this one."""


def release(chart: Path) -> Document:
    """Return the release that `helm install` would store; skips where Helm 3 needs a cluster."""
    if call("version", "--short").stdout.startswith("v3"):
        pytest.skip("Helm 3 prints the release of a dry run only if it reaches a cluster")
    done = call("install", "run", str(chart), *layers(USERS), "--dry-run=client", "-o", "json")
    found: Document = json.loads(done.stdout)
    return found


def record(stored: Document) -> int:
    """Return the bytes of a release's record (encodeRelease in Helm's pkg/storage/driver/util.go).

    The chart's files stand in it in base64, so that even text compresses badly.
    """
    text = json.dumps(stored, separators=(",", ":"), ensure_ascii=False)
    return len(base64.b64encode(gzip.compress(text.encode(), 9)))


def annotated(item: Document) -> int:
    """Return the bytes of an object's annotations after `kubectl apply` from the client's side."""
    found: dict[str, str] = item["metadata"].get("annotations") or {}
    applied = json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    return sum(
        len(k.encode()) + len(v.encode()) for k, v in {**found, LAST_APPLIED: applied}.items()
    )


def test_a_release_fits_in_helms_record(frozen: Path) -> None:
    used = record(release(frozen)) / LIMIT
    text = f"the record takes {used:.1%} of what Kubernetes stores, and should take {TARGET:.0%}"
    assert used < ROOM, text
    if used > TARGET:
        warnings.warn(text, stacklevel=1)


def test_the_record_holds_the_launchers_archive_once(frozen: Path) -> None:
    stored = release(frozen)
    packed = base64.b64encode((frozen / archive.PLACE).read_bytes()).decode()
    assert packed in stored["manifest"]
    assert packed not in json.dumps(stored["chart"])


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
