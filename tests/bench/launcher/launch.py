"""A run through the launcher on a GPU host: its values and its rendered JobSet.

Helm renders it on the host; ``pack.py`` writes the manifests for a host without Helm.
"""

import argparse
import io
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from launchers import version
from scripts import manifest
from scripts.archive import ARCHIVES, stored
from scripts.helm import template
from scripts.local import overlay
from scripts.problem import Problem
from tests.bench import host
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed.profiles import REPLACED, ROOT, Profile

WORKSPACE = host.HOME / "workspace"
PORTS = 29500, 29400
NO_CODE = {"url": "", "ref": "", "existingSecret": ""}


def half(gpus: int) -> int:
    """Return the GPUs of each of two nodes."""
    if gpus < 2 or gpus % 2:
        raise ValueError(f"--gpus {gpus} cannot be divided between two nodes; write an even number")
    return gpus // 2


def spread(gpus: int) -> tuple[int, int]:
    """Return the nodes and the GPUs of each: two nodes, or one with a single GPU.

    >>> spread(1), spread(4)
    ((1, 1), (2, 2))
    """
    return (1, 1) if gpus == 1 else (2, half(gpus))


@dataclass(frozen=True, kw_only=True)
class Launch:
    name: str
    """Name of the release and of the run's folder."""
    profile: Profile
    nodes: int
    gpus_per_node: int
    model: Path
    data: Path
    args: Mapping[str, Any]
    """Override the profile's flags; None removes one."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Other values of the chart, over all of the above."""

    def layers(self) -> list[dict[str, Any]]:
        """Return the values that override the profile's files; later ones win."""
        args = {"model_type": "qwen3_moe", "split_dataset_ratio": 0, **dict.fromkeys(REPLACED)}
        recipe = {"model": f"file://{self.model}", "dataset": [f"file://{self.data}"]}
        return [
            *(bench_profiles.layer(key, value) for key, value in self.profile.changes.items()),
            {
                **overlay.overlay(WORKSPACE, *PORTS),
                "nodes": self.nodes,
                "gpusPerNode": self.gpus_per_node,
                "code": NO_CODE,
                # all nodes are this host: NCCL uses no fabric
                "preflight": {"skipChecks": ["transport"]},
                "recipe": {**recipe, "args": {**args, **self.args}},
                "extraEnv": host.ENV,
            },
            dict(self.values),
        ]


def render(launch: Launch) -> str:
    """Return the manifest."""
    files = [ROOT / file for file in launch.profile.files]
    with tempfile.TemporaryDirectory() as scratch:
        for number, layer in enumerate(launch.layers()):
            files.append(Path(scratch) / f"{number}.yaml")
            files[-1].write_text(yaml.safe_dump(layer), encoding="utf-8")
        return template(launch.name, files, [])


def packed_file(packed: Path, name: str) -> Path:
    return packed / "manifests" / f"{name}.yaml"


def manifest_of(launch: Launch, packed: Path) -> str:
    """Return the packed manifest; without one, render it."""
    file = packed_file(packed, launch.name)
    if not file.exists():
        try:
            return render(launch)
        except Problem as problem:
            raise Problem(f"{file} is not there, and not rendered here: {problem}") from problem
    text = file.read_text(encoding="utf-8")
    if other := stale(text, ROOT / "launchers"):
        raise Problem(
            f"{file} was packed with another {other[0]}; write python3 -m tests.bench pack "
            "where Helm is, and bring the folder again"
        )
    return text


def stale(text: str, launchers: Path) -> list[str]:
    """Return the launchers' files that a manifest has otherwise than this folder."""
    maps = manifest.parse(text).files.values()
    packed = [files[name] for files in maps for name in ARCHIVES if name in files]
    held = {name: code for each in packed for name, code in _unpacked(each).items()}
    here = {name: stored(name, source) for name, source in version.sources(launchers).items()}
    return sorted(name for name in held.keys() | here.keys() if held.get(name) != here.get(name))


def _unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        opened = {name.removeprefix("launchers/"): tar.extractfile(name) for name in tar.getnames()}
        return {name: file.read() for name, file in opened.items() if file is not None}


def parser(program: str) -> argparse.ArgumentParser:
    """Return the parser with the arguments that all launcher runs share."""
    made = argparse.ArgumentParser(prog=f"python3 -m tests.bench {program}")
    add = made.add_argument
    add("tokenizer", type=Path, help="folder with a tokenizer")
    add("results", type=Path, help="folder of the result file")
    add("--label", default=program, help="of the result file and of the releases")
    add("--packed", type=Path, default=Path("packed"), help="what `tests.bench pack` made")
    add("--profile", required=True, help="[NAME:]FILE[,FILE][,flag=value]")
    add("--gpus", type=int, required=True, help="of this host, over all nodes")
    add("--pairs", type=int, default=1500, help="of the data; six fill a pack of 8,192 tokens")
    add("--limit", type=float, default=280, help="seconds of one run")
    return made
