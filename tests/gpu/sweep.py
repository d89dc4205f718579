"""Memory and step time by layout: ``python3 -m tests.gpu.sweep TOKENIZER RESULTS [NAME ...]``.

Runs what layouts.yaml lists, one after the other, straight through torchrun on all GPUs of this
host, and writes RESULTS/sweep.json after each. TOKENIZER is a folder with a tokenizer.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from launchers.argv import flatten
from tests.gpu import bench_figures, bench_read, pairs, random_model, session
from tests.gpu.pack import HOST_ENV
from tests.gpu.visit import host

ROOT = Path(__file__).parents[2]
HOST = Path("/data/sweep")
PAIRS = 1000
LIMIT = 170
"""Seconds for one run: imports, compilation and five steps."""
OUT_OF_MEMORY = "OutOfMemoryError"


def main() -> None:
    """Run the layouts that the command line names, or all."""
    tokenizer, results = Path(sys.argv[1]), Path(sys.argv[2])
    plan = yaml.safe_load(Path(__file__).with_name("layouts.yaml").read_text(encoding="utf-8"))
    names = sys.argv[3:] or list(plan["runs"])
    results.mkdir(parents=True, exist_ok=True)
    HOST.mkdir(parents=True, exist_ok=True)
    model, data = HOST / "model", HOST / "pairs.jsonl"
    random_model.write(model, random_model.Shape(num_hidden_layers=plan["layers"]), tokenizer)
    pairs.write(data, tokenizer, PAIRS)
    gpus = len(host()["gpus"])
    record: dict[str, Any] = {**host(), "layers": plan["layers"], "runs": {}}
    for name in names:
        flags = {k: v for k, v in {**plan["base"], **plan["runs"][name]}.items() if v is not None}
        record["runs"][name] = {"flags": flags, **run(name, flags, model, data, gpus)}
        print(name, {k: v for k, v in record["runs"][name].items() if k != "flags"}, flush=True)
        (results / "sweep.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def run(name: str, flags: dict[str, Any], model: Path, data: Path, gpus: int) -> dict[str, Any]:
    """Train a few steps; return how it ended, peaks in GiB and step times of the slowest rank."""
    folder = HOST / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plugins = [Path(__file__).with_name("swift_probe.py"), *map(ROOT.joinpath, flags["plugins"])]
    own: dict[str, str | list[str]] = {
        "model": str(model),
        "ref_model": str(model),
        "dataset": str(data),
        "output_dir": str(folder / "out"),
        "add_version": "false",
        "check_model": "false",
        "external_plugins": [str(plugin) for plugin in plugins],
        "callbacks": "probe",
    }
    given = {name: value for name, value in flags.items() if name != "plugins"}
    spelt = {k: v if isinstance(v, list) else spell(v) for k, v in given.items()}
    spec = importlib.util.find_spec("swift")
    assert spec is not None and spec.submodule_search_locations is not None
    entry = Path(spec.submodule_search_locations[0]) / "cli" / "_megatron" / "rlhf.py"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(gpus)]
    env = {
        **os.environ,
        **HOST_ENV,
        "PYTHONPATH": f"{ROOT}:{HOST_ENV['PYTHONPATH']}",
        "PROBE": str(folder),
        "PROBE_PARENT": str(os.getpid()),
        "HF_HUB_OFFLINE": "1",
        "NPROC_PER_NODE": str(gpus),
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    begin = time.monotonic()
    command = [*torchrun, "--master-port", str(session.free_port()), str(entry)]
    why, code = session.run(
        [*command, *flatten({**spelt, **own})],
        env,
        folder / "log",
        limit=LIMIT,
        done=lambda: bench_read.ranks(folder).complete >= int(spelt["train_iters"]),
    )
    text = (folder / "log").read_text(errors="replace")
    seen = bench_read.ranks(folder)
    finished = seen.complete >= int(spelt["train_iters"])
    return {
        "ended": why,
        "exit": 0 if finished else code,
        "out_of_memory": OUT_OF_MEMORY in text,
        "wall_s": round(time.monotonic() - begin, 1),
        **bench_figures.memory(seen),
        "seconds": [step.seconds for step in seen.steps()],
        "tokens": [step.tokens for step in seen.steps()],
        "squares": [step.squares for step in seen.steps()],
        "log": bench_read.logged(folder),
        "tail": "" if finished else text[-1500:],
    }


def spell(value: object) -> str:
    """Spell a flag's value as ms-swift reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
