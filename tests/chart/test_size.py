"""A release must fit in what Kubernetes stores: ConfigMap and Helm's own record, a Secret."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from pathlib import Path

from tests.chart.helm import BASE, call, kind, objects, template

LIMIT = 2**20
"""Bytes of a ConfigMap's or a Secret's data (Kubernetes pkg/apis/core/validation)."""
ROOM = 0.9
"""What a release may take of it: users' recipes and notes come on top."""


def record(archive: Path, manifest: str) -> int:
    """Return the bytes of a release's record: gzipped JSON with the chart's files in base64.

    Helm's pkg/storage/driver/util.go; within 1.5 % of what `helm install` was seen to store.
    """
    with tarfile.open(archive) as tar:
        opened = [tar.extractfile(each) for each in tar.getmembers() if each.isfile()]
        files = [base64.b64encode(each.read()).decode() for each in opened if each is not None]
    document = json.dumps({"chart": {"files": files}, "manifest": manifest})
    return len(base64.b64encode(gzip.compress(document.encode(), 9)))


def test_a_release_fits_in_its_config_map_and_in_helms_record(frozen: Path, tmp_path: Path) -> None:
    manifest = template(BASE, chart=frozen)
    data = kind(objects(manifest), "ConfigMap")["data"]
    assert sum(len(text.encode()) for text in data.values()) < ROOM * LIMIT
    call("package", str(frozen), "--destination", str(tmp_path))
    assert record(next(tmp_path.glob("*.tgz")), manifest) < ROOM * LIMIT
