"""Image archives in the format of `docker save`, which `load-image` imports."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.problem import Problem

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Architecture in an image's configuration, by the kernel's machine name."""


def write(archive: Path, name: str, layer: Path, config: Mapping[str, Any]) -> None:
    """Write an image of one layer, an uncompressed tar; ``name`` includes a tag.

    ``config`` is the container configuration: ``Entrypoint``, ``Env``. The archive is written
    atomically.
    """
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    machine = platform.machine()
    description = {
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(description).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}.tar"]}]
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar, layer.open("rb") as file:
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        _add(tar, config_name, text)
        entry = tarfile.TarInfo(f"{digest}.tar")
        entry.size = layer.stat().st_size
        tar.addfile(entry, file)
    partial.replace(archive)


def check(archive: Path) -> None:
    """Verify that a file is an image archive."""
    try:
        with tarfile.open(archive) as tar:
            if not {"manifest.json", "index.json"}.isdisjoint(tar.getnames()):
                return
    except (OSError, tarfile.TarError):
        pass
    raise Problem(f"{archive} is not an image archive; write one with `docker save`")


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
