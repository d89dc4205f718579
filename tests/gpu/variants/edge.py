"""The probes and the data of ``tests.gpu.variants`` on CPU; run by the training Python.

``python -m tests.gpu.variants.edge TOKENIZER FOLDER``. Trainers, loss, template and packing are
ms-swift's, the model is a table. Each case that holds prints its name.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.gpu.variants import data as variants_data
from tests.gpu.variants import read
from tests.launchers.training.reference import megatron_free
from tests.launchers.training.reference.reference_parts import collate, options, row, trainer


def packs(tokenizer: Path, folder: Path) -> None:
    """Encode the pairs as in training, and pack them in three orders."""
    binpacking: Any = importlib.import_module("binpacking")
    from swift import get_processor, get_template

    variants_data.write(folder / "pairs.jsonl", tokenizer)
    processor = get_processor(str(tokenizer), model_type="qwen3_moe")
    template = get_template(processor, template_type="qwen3_nothinking")
    template.set_mode("rlhf")
    lines = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    encoded = [template.encode(json.loads(line)) for line in lines]
    pairs = [len(e["chosen_input_ids"]) + len(e["rejected_input_ids"]) for e in encoded]
    assert min(pairs) >= variants_data.LEAST and max(pairs) <= variants_data.MOST, pairs
    for order in (pairs, pairs[::-1], sorted(pairs)):
        for length, each in ((8192, 8), (4096, 4)):
            items = list(enumerate(order))
            made = binpacking.to_constant_volume(items, length, weight_pos=1)
            assert {len(pack) for pack in made} == {each}, made
    print("all packs are full, in any order")


def log_probabilities(folder: Path) -> None:
    """Write the terms of the loss of ms-swift's trainer and of ours, packed and padded."""
    trainers: Any = sys.modules["swift.megatron.trainers"]
    upstream = importlib.import_module("swift.megatron.trainers.dpo_trainer")
    probe: Any = importlib.import_module("tests.gpu.plugins.swift_reference_probe")
    assert trainers.MegatronDPOTrainer is probe.ProbeTrainer
    chance = torch.Generator().manual_seed(5)
    rows, weights = [row(chance) for _ in range(3)], torch.randn(64, 64, generator=chance)
    os.environ["PROBE"] = str(folder)
    probe.dist = SimpleNamespace(get_rank=lambda: 0)
    none = {"mcore_ref_adapter": None, "ref_adapters": None}
    for padding_free in (True, False):
        run = trainer(
            probe.ProbeTrainer, upstream, options(folder, padding_free=padding_free, **none)
        )
        run.ref_models = run.unwrapped_models
        with torch.no_grad():  # the same model each time
            run.unwrapped_models[0].table.weight.copy_(weights)
        run.unwrapped_models[0].eval().get_input_tensor = lambda: None
        data = (probe.Collator(collate) if padding_free else probe.Collator(padded))([rows])
        output, loss_func = run.forward_step(iter([data]), run.wrapped_models[0])
        loss_func(output)
        found, apart = read.pairs(folder)
        tokens = [list(map(counted, (r["chosen_labels"], r["rejected_labels"]))) for r in rows]
        assert [pair[:2] for pair in found.values()] == tokens, (found, tokens)
        assert all(abs(p[2] - p[4]) < 1e-5 and p[2] < -1 for p in found.values()), found
        assert apart < 1e-4, apart  # both give a text the same sum
    run.state.iteration = 1  # only the first step is written
    loss_func(output + 1)
    assert read.pairs(folder)[0] == found
    print("each pair's sums and tokens, packed and padded")


def counted(labels: list[int]) -> int:
    return sum(label != -100 for label in labels)


def padded(batch: list[Any]) -> dict[str, Any]:
    """Concatenate the chosen and then the rejected texts."""
    texts = [
        (r[f"{s}_input_ids"], r[f"{s}_labels"]) for s in ("chosen", "rejected") for r in batch[0]
    ]
    width = max(len(ids) for ids, _ in texts)
    return {
        "input_ids": torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in texts]),
        "labels": torch.tensor([n + [-100] * (width - len(n)) for _, n in texts]),
    }


class Experts(torch.nn.Module):  # type: ignore[misc]
    """Stub of the experts that counts their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def forward(self, rows: Any, tokens_per_expert: Any) -> Any:
        self.rows += len(rows)
        return rows


class Router(torch.nn.Module):  # type: ignore[misc]
    topk = 2

    def forward(self, hidden: Any, padding_mask: Any = None) -> tuple[Any, Any]:
        chosen = torch.zeros(hidden.shape[0] * hidden.shape[1], 4, dtype=torch.bool)
        chosen[:, :2] = True
        return chosen.float(), chosen


class Layer(torch.nn.Module):  # type: ignore[misc]
    """Stub of megatron-core's ``MoELayer``."""

    def __init__(self, drops: int) -> None:
        super().__init__()
        self.router, self.experts, self.drops = Router(), Experts(), drops

    def forward(self, hidden: Any) -> None:
        _, chosen = self.router(hidden, None)
        self.experts(torch.zeros(int(chosen.sum()) - self.drops, 8), None)


def stand_in(name: str, **given: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(given)
    sys.modules[name] = module


def experts(folder: Path) -> None:
    """Count the rows of a layer that drops some, and end with the last logged step."""
    made: dict[str, Any] = {}
    stand_in("swift.megatron.callbacks.base", MegatronCallback=Callback)
    stand_in("swift.megatron.callbacks.mapping", megatron_callbacks_map=made)
    stand_in("megatron.core.transformer.moe.moe_layer", MoELayer=Layer)
    probe: Any = importlib.import_module("tests.gpu.plugins.swift_variants_probe")
    probe.dist = SimpleNamespace(get_rank=lambda: 0, barrier=lambda: print("all ranks meet"))
    probe.torch = SimpleNamespace(
        **{name: getattr(torch, name) for name in ("zeros", "int64", "is_grad_enabled", "Tensor")},
        cuda=SimpleNamespace(current_device=lambda: "cpu"),
    )
    layer = Layer(drops=3)
    run = SimpleNamespace(unwrapped_models=[torch.nn.Sequential(layer)])
    callback = made["probe"](run)
    callback.on_train_begin()
    with torch.no_grad():
        layer(torch.zeros(5, 2, 8))  # a pass without gradients, or recomputation
    layer(torch.zeros(5, 2, 8))
    callback.state.iteration = 1
    callback.on_log({"loss": 0.7, "iteration": "1/2"})
    ends: list[int] = []
    probe.os = SimpleNamespace(environ=os.environ, _exit=ends.append)
    callback.state.iteration = 2
    callback.on_log({"loss": 0.6})
    assert ends == [0]
    seen = read.run(folder)
    assert seen["experts"] == {"wanted": 20, "chosen": 20, "computed": 17}, seen["experts"]
    assert [r["loss"] for r in seen["log"]] == [0.7, 0.6] and "iteration" not in seen["log"][0]
    print("a row that no expert works on is missed")


class Callback:
    """``swift/megatron/callbacks/base.py``."""

    def __init__(self, run: Any) -> None:
        self.trainer = run
        self.args = SimpleNamespace(train_iters=2)
        self.state = SimpleNamespace(iteration=0)


def main() -> None:
    tokenizer, folder = Path(sys.argv[1]), Path(sys.argv[2])
    packs(tokenizer, folder)
    megatron_free.enter()
    importlib.import_module("swift.megatron.trainers")
    log_probabilities(folder)
    experts(folder)


if __name__ == "__main__":
    main()
