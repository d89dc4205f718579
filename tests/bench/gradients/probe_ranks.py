"""The probe with megatron-core's distributed optimizer, on two CPU ranks of experts.

``-m tests.bench.gradients.probe_ranks FOLDER``, run by the training Python. Model, buffers,
optimizer and ms-swift's ``wrap_model`` are the real ones, the gradients are made up. Each thing
that holds is printed by rank 0.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from safetensors.numpy import load_file

from tests.bench.gradients import errors, names
from tests.launchers.training import megatron_on_cpu
from tests.launchers.training.edge import shown


def made() -> tuple[Any, Any]:
    """Return a model in fp32 and megatron-core's optimizer of it."""
    bases: Any = importlib.import_module("swift.megatron.trainers.base")
    optimizers: Any = importlib.import_module("megatron.core.optimizer")
    args = SimpleNamespace(
        **{"fp16": False, "bf16": False, "use_distributed_optimizer": True},
        **{"overlap_grad_reduce": False, "overlap_param_gather": False},
        **{"overlap_param_gather_with_optimizer_step": False, "data_parallel_random_init": False},
    )
    model = megatron_on_cpu.build(bf16=False, params_dtype=torch.float32, moe_router_dtype="fp32")
    [wrapped] = bases.wrap_model(args, [model])
    shown("fp32: the model lies below a module that casts nothing", wrapped.module.module is model)
    config = optimizers.OptimizerConfig(
        **{"optimizer": "adam", "lr": 0.5, "use_distributed_optimizer": True, "clip_grad": 0.0}
    )
    return model, optimizers.get_megatron_optimizer(config, [wrapped])


def fill(model: Any) -> dict[str, torch.Tensor]:
    """Give each parameter a gradient, equal on all ranks that have it; return those of all."""
    found = {}
    for name, weight in model.named_parameters():
        whole = names.whole(name, dist.get_rank(), megatron_on_cpu.EXPERTS // 2)
        chance = torch.Generator().manual_seed(sum(whole.encode()))
        weight.main_grad.copy_(torch.randn(weight.shape, generator=chance))
        found[whole] = weight.main_grad.flatten().clone()
    of_ranks: list[dict[str, torch.Tensor]] = [{}, {}]
    dist.all_gather_object(of_ranks, found)
    return {**of_ranks[0], **of_ranks[1]}


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["PROBE"] = str(folder)
    probe: Any = importlib.import_module("tests.bench.plugins.swift_gradients_probe")
    model, optimizer = made()
    wanted = fill(model)
    trainer = SimpleNamespace(
        **{"optimizer": optimizer, "unwrapped_models": [model], "config": model.config},
        **{"args": SimpleNamespace(train_iters=1), "state": SimpleNamespace(iteration=1)},
    )
    callback = probe.ProbeCallback(trainer)
    callback.on_train_begin()
    before = [weight.detach().clone() for weight in model.parameters()]
    assert optimizer.step()[0]
    changed = [not torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True)]
    shown("the optimizer's step follows", all(changed))
    callback.path.write_text(json.dumps(callback.about))
    dist.barrier()
    right = {name: each.numpy() for name, each in wanted.items()}
    apart = errors.compare(errors.read(folder), right)
    cut = [key for key in keys(folder) if key.split(":")[1] != key.split(":")[2]]
    shown("a parameter is split between the ranks", len(cut) > 0)
    is_equal = all(row["error"] == 0.0 for row in apart.values())
    shown("the parts of both ranks are the whole gradients", is_equal)
    callback.on_log({"loss": 1.0, "grad_norm": 2.0})


def keys(folder: Path) -> list[str]:
    """Return the keys of all parts that were written."""
    return [key for path in folder.glob("gradients-*.safetensors") for key in load_file(path)]


if __name__ == "__main__":
    megatron_on_cpu.join()
    megatron_on_cpu.name_types_as_on_gpu()
    main()
