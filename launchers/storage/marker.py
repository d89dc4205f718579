"""The marker of a finished output, ``.complete.json`` in its folder, and digests of markers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.config.workspace import Workspace
from launchers.storage.manifest import Entry, Manifest
from launchers.system import lookup
from launchers.system.atomic_file import FOREIGN, known_object, replace

NAME = ".complete.json"
_RESTORE = (
    "write into it what COMPLETE.json of a checkpoint of this run has under inputs; remove it if "
    "the run has no checkpoint"
)


@dataclass(frozen=True, kw_only=True)
class Marker:
    """Inputs and manifest of an output."""

    inputs: Mapping[str, Any]
    """Compared for equality: other inputs make another output."""
    manifest: Manifest
    made: Mapping[str, Any] = field(default_factory=dict)
    """For readers: seconds, at, commit … Not part of the digest."""


def read(folder: Path) -> Marker | None:
    """Return the marker of ``folder``; None if it is missing or torn.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    try:
        document = json.loads(lookup.text(folder / NAME) or "")
        manifest = {
            str(name): Entry(int(e["size"]), str(e["sha256"]))
            for name, e in document["manifest"].items()
        }
        return Marker(
            inputs=dict(document["inputs"]), manifest=manifest, made=dict(document["made"])
        )
    except FOREIGN:
        return None


def write(folder: Path, marker: Marker) -> None:
    """Write the marker atomically."""
    replace(folder / NAME, json.dumps(_document(marker), indent=1, sort_keys=True) + "\n")


def digest(marker: Marker) -> str:
    """Return the SHA-256 of inputs and manifest; equal outputs have equal digests."""
    document = _document(marker)
    del document["made"]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def digest_of(folder: Path) -> str:
    """Return the digest of the marker in a folder; empty without one."""
    found = read(folder)
    return digest(found) if found else ""


def begun_with(work: Workspace) -> dict[str, Any]:
    """Return what a run began with: digests by name (``keep_identity``); empty before its start.

    Raises:
        LaunchError: IO if the storage does not answer, or the file is torn.
    """
    return known_object(work.inputs, _RESTORE)


def _document(marker: Marker) -> dict[str, Any]:
    return {
        "inputs": dict(marker.inputs),
        "manifest": {name: e._asdict() for name, e in marker.manifest.items()},
        "made": dict(marker.made),
    }


def plain(inputs: Mapping[str, object]) -> dict[str, Any]:
    """Return inputs as parsed from JSON, so that they compare equal to stored ones."""
    document: dict[str, Any] = json.loads(json.dumps(dict(inputs)))
    return document
