"""The files of a hub's repository, and the choice of those to download. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from launchers.config.sources import Kind, Source
from launchers.exits import Exit, LaunchError

_OTHER_WEIGHTS = (
    *(".bin", ".ckpt", ".gguf", ".h5", ".mlmodel", ".msgpack", ".onnx", ".onnx_data", ".ot"),
    *(".pdparams", ".pt", ".pth", ".tflite"),
)


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of a repository, as the hub lists it."""

    path: str
    size: int
    digest: str
    kind: Literal["sha256", "git", "none"]
    """Type of ``digest``: SHA-256 for large files, git's blob id for others, or unknown."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A repository at one revision."""

    commit: str
    """The commit of the revision if the hub returns it, otherwise the revision."""
    files: tuple[HubFile, ...]


def wanted(listing: Listing, source: Source, kind: Kind) -> tuple[HubFile, ...]:
    """Choose the files to fetch.

    Of a dataset all, or those below ``source.path``. Of a model not the same weights a second
    time: where there are safetensors, which is what training reads, files of other weight formats
    are left out (some repositories hold three copies of 60 GB).

    Raises:
        LaunchError: INPUT_MISSING when there is none, with the nearest name.
    """
    found = [f for f in listing.files if _is_below(f.path, source.path)]
    if not found:
        raise LaunchError(Exit.INPUT_MISSING, *_nothing(listing, source, kind), id="hub-no-file")
    if kind == "model" and any(f.path.endswith(".safetensors") for f in found):
        found = [f for f in found if not f.path.endswith(_OTHER_WEIGHTS)]
    return tuple(found)


def _is_below(path: str, start: str) -> bool:
    return not start or path == start or path.startswith(f"{start}/")


def _nothing(listing: Listing, source: Source, kind: Kind) -> tuple[str, str]:
    names = [f.path for f in listing.files]
    near = difflib.get_close_matches(source.path, names, n=1, cutoff=0.0)
    remedy = f"did you mean {near[0]}?" if near else "use a repository that has files"
    return f"recipe.{kind}: {source.text} contains no files", remedy
