"""Ranks with megatron-core's distributed optimizer and Transformer Engine's FusedAdam on CPU.

``-m tests.launchers.training.optimizer.narrow_moments_ranks FOLDER ENGINE``: trains some steps,
saves as upstream does and with the patch, and loads each with and without it. ENGINE is a folder
with the source of a release of Transformer Engine. Each rank prints a line of JSON.
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launchers.stop import finished
from tests.launchers.training import megatron_on_cpu, module_file, stand_ins
from tests.launchers.training.saving.save_ranks import strategies

METADATA = {"distrib_optim_sharding_type": "dp_reshardable"}
BF16 = torch.bfloat16
SIZES = ((40, 9), (17,), (8, 8), (1,))


def enter(engine: Path) -> None:
    """Let megatron-core find the FusedAdam of a release, and weights on the CPU."""
    megatron_on_cpu.enter()
    kernels = importlib.import_module("tests.engines.kernels")
    sys.modules["transformer_engine_torch"] = kernels
    tensors = ("Float8Tensor", "Float8Quantizer")
    members: dict[str, dict[str, Any]] = {
        "constants": {"DType": kernels.DType},
        "quantized_tensor": {"QuantizedTensor": type("QuantizedTensor", (), {})},
        "tensor.float8_tensor": {each: type(each, (), {}) for each in tensors},
        "optimizers.multi_tensor_apply": {
            "multi_tensor_applier": lambda op, noop, lists, *given: op(0, noop, lists, *given)
        },
    }
    root = "transformer_engine.pytorch"
    stand_ins.install({f"{root}.{name}": each for name, each in members.items()})
    path = engine / "transformer_engine/pytorch/optimizers/fused_adam.py"
    adam = module_file.load("transformer_engine.pytorch.optimizers.fused_adam", path)
    vars(sys.modules["transformer_engine.pytorch.optimizers"])["FusedAdam"] = adam.FusedAdam
    for name in ("megatron.core.optimizer", "megatron.core.optimizer.distrib_optimizer"):
        vars(importlib.import_module(name)).update(
            USING_PYTORCH_OPTIMIZER=False,
            USING_TE_OPTIMIZER=True,
            HAVE_APEX_OR_TE=True,
            Adam=adam.FusedAdam,
        )
    megatron_on_cpu.name_types_as_on_gpu()


def make(seed: int) -> tuple[Any, Any]:
    """Return megatron-core's optimizer over two ranks, and its model."""
    core = importlib.import_module("megatron.core.distributed")
    optimizers = importlib.import_module("megatron.core.optimizer")
    configs = importlib.import_module("megatron.core.transformer")
    torch.manual_seed(seed)
    config = configs.TransformerConfig(
        num_layers=1, hidden_size=8, num_attention_heads=1, bf16=True, params_dtype=BF16
    )
    module = Model(config)
    ddp = core.DistributedDataParallelConfig(use_distributed_optimizer=True, bucket_size=None)
    model = core.DistributedDataParallel(config, ddp, module)
    chosen = optimizers.OptimizerConfig(
        **{"optimizer": "adam", "lr": 1e-2, "bf16": True, "use_distributed_optimizer": True},
        **{"use_precision_aware_optimizer": True, "main_params_dtype": torch.float32},
        **{"exp_avg_dtype": BF16, "exp_avg_sq_dtype": BF16, "params_dtype": BF16},
        clip_grad=0.0,
    )
    return optimizers.get_megatron_optimizer(chosen, [model]), model


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.weights = torch.nn.ParameterList(torch.randn(size).to(BF16) for size in SIZES)


def train(optimizer: Any, model: Any, steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    for _ in range(steps):
        model.zero_grad_buffer()
        for weight in model.parameters():
            weight.main_grad.copy_(torch.randn(weight.shape))
        assert optimizer.step()[0]


def kept(optimizer: Any, model: Any) -> list[torch.Tensor]:
    found = [weight.detach().clone() for weight in model.parameters()]
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        for group in part.optimizer.param_groups:
            for weight in group["params"]:
                state = part.optimizer.state[weight]
                found += [state[name].clone() for name in sorted(state)]
    return found


def save(optimizer: Any, model: Any, folder: Path) -> list[str]:
    """Save; return the types of what is saved."""
    serialization = importlib.import_module("megatron.core.dist_checkpointing")
    mapping = importlib.import_module("megatron.core.dist_checkpointing.mapping")
    folder.mkdir(exist_ok=True)
    dist.barrier()
    state = {"model": weights(model)}
    state["optimizer"] = optimizer.sharded_state_dict(state, metadata=METADATA)
    types_: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, mapping.ShardedTensor) and value.key.startswith("optimizer"):
            types_.add(f"{value.key.rpartition('.')[2]} {value.dtype}")
        for each in value.values() if isinstance(value, dict) else ():
            walk(each)
        for each in value if isinstance(value, list) else ():
            walk(each)

    walk(state)
    serialization.save(state, str(folder), strategies()[0])
    return sorted(types_)


def weights(model: Any) -> dict[str, Any]:
    """Return the model's sharded state: the same on all ranks."""
    core = importlib.import_module("megatron.core.dist_checkpointing")
    return {
        name: core.ShardedTensor.from_rank_offsets(name, weight.data, replica_id=dist.get_rank())
        for name, weight in model.named_parameters()
    }


def load(optimizer: Any, model: Any, folder: Path) -> None:
    serialization = importlib.import_module("megatron.core.dist_checkpointing")
    wanted = {"model": weights(model)}
    wanted["optimizer"] = optimizer.sharded_state_dict(wanted, metadata=METADATA, is_loading=True)
    found = serialization.load(wanted, str(folder), strategies()[1])
    for name, weight in model.named_parameters():
        weight.data.copy_(found["model"][name])
    optimizer.load_state_dict(found["optimizer"])


def patches() -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what installs the patch, and what removes it."""
    ours = importlib.import_module("launchers.training.optimizer.narrow_moments")
    owner = ours.DistributedOptimizer

    def remove() -> None:
        owner.sharded_state_dict, owner.load_state_dict = ours._sharded, ours._load
        owner._set_main_param_and_optimizer_states = ours._set

    return ours.install, remove


def main() -> None:
    enter(Path(sys.argv[2]))
    finished.end_at_exit()
    dist.init_process_group("gloo")
    vars(torch.cuda)["synchronize"] = lambda *_: None
    state = importlib.import_module("megatron.core.parallel_state")
    state.initialize_model_parallel()
    install, remove = patches()
    ways = {"upstream": remove, "narrow": install}
    folder = Path(sys.argv[1])
    optimizer, model = make(1)
    train(optimizer, model, 5, seed=dist.get_rank())
    saved = kept(optimizer, model)
    written = {}
    for name, switch in ways.items():
        switch()
        written[name] = save(optimizer, model, folder / name)
    unchanged = equal(saved, kept(optimizer, model))
    train(optimizer, model, 3, seed=10 + dist.get_rank())
    after = kept(optimizer, model)
    same, course = {}, {}
    for name, switch in ways.items():
        for source in ways:
            switch()
            other, copy = make(2)
            load(other, copy, folder / source)
            same[f"{source} {name}"] = equal(saved, kept(other, copy))
            train(other, copy, 3, seed=10 + dist.get_rank())
            course[f"{source} {name}"] = equal(after, kept(other, copy))
    shards = {name: (folder / name).glob("*.distcp") for name in ways}
    size = {name: sum(path.stat().st_size for path in found) for name, found in shards.items()}
    found = {"types": written, "unchanged": unchanged, "same": same, "course": course}
    print(json.dumps(found | {"size": size}), flush=True)


def equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    """Return whether all tensors have the same types and bits."""
    return len(one) == len(two) and all(
        a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(one, two, strict=True)
    )


if __name__ == "__main__":
    main()
