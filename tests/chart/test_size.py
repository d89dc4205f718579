"""A release must fit in what Kubernetes stores: its objects, and Helm's own record, a Secret."""

import base64
import gzip
import json
import re
import warnings
from pathlib import Path

import pytest

from scripts import archive
from tests.chart.helm import ROOT, Document, call, kind, layers, objects, text_of

USERS = ROOT / "values" / "a100-2node.yaml"
FILES = sorted((ROOT / "values").glob("*.yaml"))
LIMIT = 2**20
"""Bytes of a Secret's data (MaxSecretSize in Kubernetes pkg/apis/core/types.go)."""
TARGET = 0.5
"""Share of it that a release of this checkout should take; users' recipes and notes come on top."""
ROOM = 0.75
"""Share of it at which the test fails."""
STATED_POINTS = 3
"""Percentage points by which chart/README.md may differ from that share."""
ANNOTATIONS = 2**18
"""Bytes of all annotations of an object (TotalAnnotationSizeLimitB in apimachinery
pkg/api/validation/objectmeta.go)."""
FULL = 0.85
"""Share of it above which the test warns: a longer recipe would soon not fit."""
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


def judge(what: str, used: float, *, target: float, limit: float) -> None:
    """Fail if a share of what Kubernetes stores reaches a limit; warn if it exceeds a target."""
    text = f"{what} takes {used:.1%} of what Kubernetes stores, and should take {target:.0%}"
    assert used < limit, text
    if used > target:
        warnings.warn(text, stacklevel=2)


def test_a_release_fits_in_helms_record(frozen: Path) -> None:
    share = record(release(frozen)) / LIMIT
    judge("the record", share, target=TARGET, limit=ROOM)
    page = (ROOT / "chart" / "README.md").read_text(encoding="utf-8")
    [stated] = re.findall(r"release record takes (\d+) % of a Secret's 1 MiB", page)
    assert abs(int(stated) - 100 * share) < STATED_POINTS, f"chart/README.md: it takes {share:.0%}"


def test_a_share_above_its_target_is_a_warning_and_at_its_limit_a_failure() -> None:
    with pytest.warns(UserWarning, match=r"it takes 96\.0% of what .* should take 95%"):
        judge("it", 0.96, target=0.95, limit=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge("it", 0.95, target=0.95, limit=1.0)
    with pytest.raises(AssertionError, match=r"it takes 100\.0%"):
        judge("it", 1.0, target=0.95, limit=1.0)


def test_the_record_holds_the_launchers_archive_once(frozen: Path) -> None:
    stored = release(frozen)
    for place in archive.PLACES:
        packed = base64.b64encode((frozen / place).read_bytes()).decode()
        assert packed in stored["manifest"]
        assert packed not in json.dumps(stored["chart"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_client_side_apply_takes_every_object(file: Path, frozen: Path) -> None:
    manifest = text_of(file, chart=frozen)
    sizes = {item["metadata"]["name"]: annotated(item) for item in objects(manifest)}
    assert sizes["run-launchers"] == max(sizes.values())
    judge("the ConfigMap", sizes["run-launchers"] / ANNOTATIONS, target=FULL, limit=1.0)


def test_the_last_applied_object_is_what_fills_the_annotations(frozen: Path) -> None:
    manifest = text_of(USERS, chart=frozen)
    config = kind(objects(manifest), "ConfigMap")
    config["data"]["more"] = "x" * (ANNOTATIONS - annotated(config))
    assert annotated(config) > ANNOTATIONS
