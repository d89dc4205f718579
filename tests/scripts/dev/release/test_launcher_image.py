"""The OCI image of the launcher, read as a registry's client and a container runtime read one."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from launchers.version import digest, sources
from scripts.dev.release.launcher_image import PLATFORMS, archived
from scripts.helm import ROOT

FILES = sources(ROOT / "launchers")


def blob(layout: Path, described: dict[str, Any]) -> bytes:
    """Return what a descriptor refers to, after the checks that a client makes."""
    content: bytes = (layout / "blobs" / described["digest"].replace(":", "/")).read_bytes()
    assert hashlib.sha256(content).hexdigest() == described["digest"].partition(":")[2]
    assert len(content) == described["size"]
    return content


def extract(packed: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def test_each_platform_has_the_unchanged_sources(tmp_path: Path) -> None:
    layout, named = archived(FILES, "0.2.0")
    extract(layout, tmp_path)
    assert json.loads((tmp_path / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    [entry] = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert entry["digest"] == named
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "0.2.0"}
    manifests = json.loads(blob(tmp_path, entry))["manifests"]
    assert [each["platform"]["architecture"] for each in manifests] == list(PLATFORMS)
    for each in manifests:
        manifest = json.loads(blob(tmp_path, each))
        config = json.loads(blob(tmp_path, manifest["config"]))
        assert {key: config[key] for key in ("architecture", "os")} == each["platform"]
        [layer] = manifest["layers"]
        assert config["rootfs"]["diff_ids"] == [layer["digest"]]
        folder = tmp_path / each["platform"]["architecture"]
        extract(blob(tmp_path, layer), folder)
        assert digest(sources(folder)) == digest(FILES)


def test_another_source_of_equal_size_has_another_time() -> None:
    """Bytecode on the workspace is taken for a source's by size and time."""
    times = []
    for source in (b"a = 1\n", b"a = 2\n"):
        layout, _ = archived({"a.py": source}, "1")
        with tarfile.open(fileobj=io.BytesIO(layout)) as archive:
            blobs = [archive.extractfile(each) for each in archive if each.size > 2048]
            [layer] = [each.read() for each in blobs if each]
        with tarfile.open(fileobj=io.BytesIO(layer)) as inner:
            times.append(inner.getmember("a.py").mtime)
    assert times[0] != times[1]
