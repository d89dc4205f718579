"""The real pass under ``swift_pass.py``, with torch on CPU and stubs of what is missing there.

``python -m tests.bench.speed.fake_pass``, with the plugin's variable, prints the pass's seconds and
pairs.
"""

import importlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.launchers.reference import megatron_free
from tests.launchers.reference.reference_parts import options, trainer

ROUNDS = 4
NAMES = ("input_ids", "labels")


def pairs(count: int) -> list[list[dict[str, list[int]]]]:
    sides = ("chosen", "rejected")
    return [
        [{f"{s}_{n}": [1 + k % 60, 2, 3, 4 + at] for at, s in enumerate(sides) for n in NAMES}]
        for k in range(count)
    ]


def main() -> None:
    megatron_free.enter()
    torch.cuda.synchronize = lambda *_: None
    # a torch without CUDA has no profiler of its kernels alone
    whole, kinds = torch.profiler.profile, torch.profiler.ProfilerActivity
    torch.profiler.profile = lambda activities: whole(activities={*activities, kinds.CPU})
    upstream: Any = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    own: Any = importlib.import_module("launchers.reference.trainer")
    forward_pass: Any = importlib.import_module("launchers.reference.forward_pass")
    importlib.import_module("tests.bench.plugins.swift_pass")
    with tempfile.TemporaryDirectory() as scratch:
        dist.init_process_group("gloo", init_method=f"file://{scratch}/s", rank=0, world_size=1)
        packs = pairs(ROUNDS * forward_pass.ROUND)
        run = trainer(own.PrecomputedDPOTrainer, upstream, options(Path(scratch)))
        opened = forward_pass.open_store(Path(scratch), run.args, 0, forward_pass.machine())
        begun = time.monotonic()
        forward_pass._pass(run, [packs], opened)
        print(json.dumps([time.monotonic() - begun, len(packs)]))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
