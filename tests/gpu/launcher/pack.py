"""Sources and rendered manifests of ``stages.py`` for a GPU host without network.

Run ``python -m tests.gpu.launcher.pack FOLDER [RUN ...] [--values FILE ...]`` where Helm and the
CPU training environment are; copy the repository and FOLDER to the host. Values files override
those of the runs, for example to fit the ``tiny-*`` runs to a host with 2 GPUs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import yaml

from scripts.demo import sources
from scripts.demo.sources import Sources
from scripts.helm import ROOT, template
from scripts.local import overlay
from scripts.local.runner import training_python
from tests.gpu import host

VALUES = ROOT / "values" / "demo-megatron.yaml"
TINY: dict[str, Any] = {}
BIG: dict[str, Any] = {
    # real widths on one node, enough optimizer steps to time the first one
    "nodes": 1,
    "gpusPerNode": 4,
    "recipe": {
        "model": f"file://{host.HOME}/workspace/big-moe",
        "args": {
            "tensor_model_parallel_size": 1,
            "expert_model_parallel_size": 4,
            "sequence_parallel": False,
            "max_length": 8192,
            "train_iters": 2,
            "recompute_granularity": "full",
            "recompute_method": "uniform",
            "recompute_num_layers": 1,
            "save_strategy": "steps",
            "save_steps": 1000,
            "no_save_optim": True,
        },
    },
}
SKIP_CONVERT = {"stages": {"convert": {"skip": True}}}
RUNS: dict[str, list[dict[str, Any]]] = {
    "tiny-convert": [TINY],
    "tiny-direct": [TINY, SKIP_CONVERT],
    "tiny-resume": [TINY, SKIP_CONVERT],
    "tiny-kill": [TINY, SKIP_CONVERT],
    "big-direct": [BIG, SKIP_CONVERT],
    "big-convert": [BIG],
}


def host_values(commit: str) -> dict[str, Any]:
    """Values with the host's paths."""
    return {
        **overlay.overlay(host.HOME / "workspace", 29500, 29400),
        "code": {"url": f"file://{host.HOME}/sources/code", "ref": commit},
        "recipe": {
            "model": f"file://{host.HOME}/sources/tiny-moe",
            "dataset": [f"file://{host.HOME}/sources/pairs.jsonl"],
            "args": {"external_plugins": ["docstring_pairs.py"]},
        },
        "extraEnv": host.ENV,
    }


def main() -> None:
    """Write sources and manifests to the folder of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.launcher.pack")
    parser.add_argument("folder", type=Path, help="to bring to the host")
    parser.add_argument("names", nargs="*", metavar="RUN", help="all by default")
    parser.add_argument("--values", type=Path, action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RUNS):
        parser.error(f"{', '.join(sorted(unknown))} is not a run; use {', '.join(RUNS)}")
    folder: Path = options.folder.resolve()
    made = Sources(root=folder / "sources")
    sources.make_pairs(made)
    sources.make_model(made, training_python(ROOT))  # for its tokenizer
    commit = sources.make_code(made)
    (folder / "manifests").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.names or RUNS:
            files = [VALUES]
            for number, layer in enumerate([host_values(commit), *RUNS[name]]):
                files.append(Path(scratch) / f"{name}-{number}.yaml")
                files[-1].write_text(yaml.safe_dump(layer), encoding="utf-8")
            manifest = template(name, [*files, *options.values], [])
            (folder / "manifests" / f"{name}.yaml").write_text(manifest, encoding="utf-8")
            print(folder / "manifests" / f"{name}.yaml")


if __name__ == "__main__":
    main()
