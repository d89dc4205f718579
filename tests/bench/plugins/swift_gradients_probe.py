"""Loaded into ms-swift's Megatron trainer: writes the gradients that the optimizer is given.

``PROBE`` names the folder. Before each step of the optimizer, so before clipping, every rank writes
``gradients-<rank>.safetensors``: the parts of the parameters that its distributed optimizer owns,
in fp32, with the key ``<begin>:<end>:<elements>:<name>``. ``gradients-<rank>.json`` says what the
rank is, and gets loss and gradient norm of the last step, with which the run is over: nothing is
saved.

ms-swift 4.4.1 does not train DPO in fp32: its step looks for the model below the module that casts
to bf16 (``swift/megatron/trainers/dpo_trainer.py: forward_step``, ``model.module.module``), which
``wrap_model`` leaves out. ``Uncast`` takes its place; it changes no number.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu
from megatron.core.transformer.module import Float16Module, MegatronModule
from safetensors.torch import save_file
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map
from swift.megatron.trainers import base

_wrap = base.wrap_model


class Uncast(Float16Module):  # type: ignore[misc]
    """Stands where megatron-core casts inputs to 16 bits, and casts nothing."""

    def __init__(self, config: Any, module: Any) -> None:
        MegatronModule.__init__(self, config)
        self.module, self.vp_stage = module, module.vp_stage

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.module(*given, **named)


def wrap_model(args: Any, models: list[Any], *given: Any, **named: Any) -> list[Any]:
    """Wrap the models as upstream does, those in fp32 with ``Uncast`` between."""
    if not (args.fp16 or args.bf16):
        models = [Uncast(model.config, model) for model in models]
    return list(_wrap(args, models, *given, **named))


def parts(optimizer: Any, names: dict[Any, str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield key and gradient of each part that this rank updates.

    ``optimizer`` is megatron-core's, of one or of several distributed optimizers.
    """
    for each in getattr(optimizer, "chained_optimizers", [optimizer]):
        for parameter in getattr(each, "model_param_gbuf_map", ()):
            own = each._get_model_param_range_map(parameter)["param"]
            if own.end > own.start:
                part = parameter.main_grad.detach().reshape(-1)[own.start : own.end]
                key = f"{own.start}:{own.end}:{parameter.numel()}:{names[parameter]}"
                yield key, part.float().cpu().clone()


class ProbeCallback(MegatronCallback):  # type: ignore[misc]
    """Writes gradients, then ends the run."""

    def on_train_begin(self) -> None:
        """Stand before the optimizer's step."""
        optimizer, folder = self.trainer.optimizer, Path(os.environ["PROBE"])
        models = self.trainer.unwrapped_models
        names = {value: name for model in models for name, value in model.named_parameters()}
        config, step = self.trainer.config, optimizer.step
        ranks = mpu.get_expert_model_parallel_world_size()
        self.path = folder / f"gradients-{dist.get_rank()}.json"
        some = next(each for each in names if hasattr(each, "main_grad"))  # trained
        self.about = {
            "expert_rank": mpu.get_expert_model_parallel_rank(),
            "local_experts": config.num_moe_experts // ranks,
            "weights": str(some.dtype),
            "gradients": str(some.main_grad.dtype),
            "launchers": sorted(name for name in sys.modules if name.startswith("launchers.")),
        }

        def record() -> Any:
            found = dict(parts(optimizer, names))
            save_file(found, str(self.path.with_suffix(".safetensors")))
            return step()

        optimizer.step = record

    def on_log(self, logs: dict[str, Any]) -> None:
        """Write what was logged; end this rank with the last step."""
        self.about |= {name: logs.get(name) for name in ("loss", "grad_norm")}
        self.path.write_text(json.dumps(self.about), encoding="utf-8")
        if self.state.iteration < self.args.train_iters:
            return
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)


megatron_callbacks_map["bench_probe"] = ProbeCallback
base.wrap_model = wrap_model
