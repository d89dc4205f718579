"""The real callback of the ablation, with torch on CPU and a stub of ms-swift's trainer.

``python -m tests.gpu.ablation.fake_trainer STEPS`` with ``ABLATION`` and ``PROBE`` set; prints the
state of each step.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import types
from types import SimpleNamespace
from typing import Any

import torch

CALLS: list[str] = []
ATTENTION: dict[str, Any] = {}


class Callback:
    """``swift/megatron/callbacks/base.py``."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.state = trainer, trainer.state


def stand_in(name: str, **members: Any) -> None:
    """Register a stub of a module that is not installed."""
    parts = name.split(".")
    for at in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:at]), types.ModuleType(".".join(parts[:at])))
    vars(sys.modules[name]).update(members)


def enter() -> dict[str, Any]:
    """Register stubs of ms-swift, Transformer Engine and the GPU; return the map of callbacks."""
    callbacks: dict[str, Any] = {}
    stand_in("swift.megatron.callbacks.base", MegatronCallback=Callback)
    stand_in("swift.megatron.callbacks.mapping", megatron_callbacks_map=callbacks)
    stand_in(
        "transformer_engine.pytorch.attention.dot_product_attention",
        _attention_backends=ATTENTION,
    )
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        setattr(torch.cuda, name, lambda name=name: CALLS.append(name))
    torch.distributed.get_rank = lambda *_: 0
    # a torch without CUDA has no profiler of its kernels alone
    whole, kinds = torch.profiler.profile, torch.profiler.ProfilerActivity
    torch.profiler.profile = lambda activities: whole(activities=[*activities, kinds.CPU])
    return callbacks


class Indices:
    """A tensor with a fixed device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def cpu(self) -> Indices:
        return Indices("cpu")

    def cuda(self) -> Indices:
        return Indices("cuda")


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A layer with a configuration of its own, as megatron-core copies it for some."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.linear = torch.nn.Linear(4, 4)
        self.activation_recompute = False
        self.token_dispatcher = SimpleNamespace(
            sort_input_by_local_experts=Indices("cuda"), cuda_sync_point="before_finish"
        )


def main() -> None:
    """Train; record the switched state of each step."""
    callbacks = enter()
    importlib.import_module("tests.gpu.plugins.swift_ablation")
    fields = {"moe_router_fusion": True, "moe_permute_fusion": True, "recompute_num_layers": 36}
    shared, copied = SimpleNamespace(**fields), SimpleNamespace(**fields)
    model = torch.nn.Sequential(Layer(shared), Layer(copied))
    ddp, groups = SimpleNamespace(check_for_nan_in_grad=True), SimpleNamespace()
    groups.ddp_config = SimpleNamespace(check_for_nan_in_grad=True)
    wrapped = SimpleNamespace(
        ddp_config=ddp, bucket_groups=[SimpleNamespace(ddp_config=ddp), groups]
    )
    trainer = SimpleNamespace(
        state=SimpleNamespace(iteration=0),
        config=shared,
        unwrapped_models=[model],
        wrapped_models=[wrapped],
    )
    callback = callbacks["ablation"](trainer)
    callback.on_train_begin()
    seen = []
    for _ in range(int(sys.argv[1])):
        CALLS.clear()
        ATTENTION["attention_params"] = "of the last step"
        callback.on_step_begin()
        seen.append(look(model, ddp, groups.ddp_config, callback))
        model[0].linear(torch.randn(2, 4)).sum().backward()
        dispatcher = model[1].token_dispatcher
        if not shared.moe_permute_fusion:  # as in megatron-core: it never resets itself
            dispatcher.cuda_sync_point = "before_permutation_2"
        trainer.state.iteration += 1
        callback.on_step_end()
    print(json.dumps(seen))


def look(model: Any, ddp: Any, group: Any, callback: Any) -> dict[str, Any]:
    """Return the state that the first step of a variant would have."""
    dispatcher = model[1].token_dispatcher
    return {
        "router": [layer.config.moe_router_fusion for layer in model],
        "layers": model[0].config.recompute_num_layers,
        "moe_act": [layer.activation_recompute for layer in model],
        "nan": [ddp.check_for_nan_in_grad, group.check_for_nan_in_grad],
        "cutlass": os.environ.get("NVTE_USE_CUTLASS_GROUPED_GEMM"),
        "flash": os.environ.get("NVTE_FLASH_ATTN"),
        "attention": ATTENTION["attention_params"],
        "gc": gc.isenabled(),
        "frozen": gc.get_freeze_count() > 0,
        "cores": len(os.sched_getaffinity(0)),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "sync": dispatcher.cuda_sync_point,
        "device": dispatcher.sort_input_by_local_experts.device,
        "profiled": callback.profiler is not None,
        "calls": list(CALLS),
    }


if __name__ == "__main__":
    main()
