"""The launcher as an OCI image that pods mount as a volume: one layer with its unchanged sources.

An archive of an OCI image layout (image-layout.md of the OCI image specification), of equal bytes
for equal sources: the layer is not compressed. ``oras cp --from-oci-layout`` and ``skopeo copy
oci-archive:`` push it under the same digest.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from scripts.archive import tar, time_of
from scripts.dev.release.package import EPOCH

PLATFORMS = ("amd64", "arm64")
"""Architectures of the nodes; a runtime may refuse an image of another one, also as a volume."""
_TYPE = "application/vnd.oci.image"


def archived(files: Mapping[str, bytes], version: str) -> tuple[bytes, str]:
    """Return the archive of the image and the image's digest, ``sha256:...``."""
    blobs: dict[str, bytes] = {}
    layer = _described(blobs, tar(files, time_of(files)), "layer.v1.tar")
    manifests = []
    for architecture in PLATFORMS:
        platform = {"architecture": architecture, "os": "linux"}
        rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
        config = _described(blobs, _json({**platform, "rootfs": rootfs}), "config.v1+json")
        manifest = {"schemaVersion": 2, "mediaType": f"{_TYPE}.manifest.v1+json"}
        manifest |= {"config": config, "layers": [layer]}
        made = _described(blobs, _json(manifest), "manifest.v1+json")
        manifests.append({**made, "platform": platform})
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": manifests}
    image = _described(blobs, _json(index), "index.v1+json")
    named = {**image, "annotations": {"org.opencontainers.image.ref.name": version}}
    entry = {"schemaVersion": 2, "manifests": [named]}
    content = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(entry),
        **{f"blobs/sha256/{digest}": blob for digest, blob in blobs.items()},
    }
    return tar(content, EPOCH), str(image["digest"])


def _described(blobs: dict[str, bytes], content: bytes, kind: str) -> dict[str, Any]:
    """Add a blob; return its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": f"{_TYPE}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
