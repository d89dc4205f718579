"""Switch adapters off for the reference and on again by their flags alone.

The reference of an adapter's run is the policy without adapters. PEFT 0.20's ``disable_adapter``
first describes every module of the model (``get_model_status``), then sets ``requires_grad`` of all
adapters' weights, and again afterwards: 9 % of the host's work in a step on an H100, while the GPU
has nothing to do. The reference runs without gradients, so that the flag that the layers' forward
pass reads is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mcore_bridge.tuners.lora import LoraParallelLinear
from swift.megatron.trainers.rlhf_mixin import MegatronRLHFTrainer

_upstream = MegatronRLHFTrainer.null_ref_context
_LAYERS = "_switched_layers"


def layers(trainer: Any) -> list[Any]:
    """Return the layers whose adapters are the policy; none if a flag does not switch all of them.

    Adapters of the reference, and weights that are saved as a whole, are switched by PEFT.
    """
    if _LAYERS not in vars(trainer):
        args, models = trainer.args, trainer.peft_models
        found = [each for m in models for each in m.modules() if hasattr(each, "enable_adapters")]
        is_plain = all(isinstance(each, LoraParallelLinear) for each in found)
        is_policy = not (args.tuner_type == "full" or args.mcore_ref_adapter or args.ref_adapters)
        setattr(trainer, _LAYERS, found if is_plain and is_policy else [])
    own: list[Any] = vars(trainer)[_LAYERS]
    return own


@contextmanager
def null_ref_context(self: Any) -> Iterator[Any]:
    """Yield the reference models as upstream does."""
    switched = [] if torch.is_grad_enabled() else layers(self)
    if not switched or any(layer.disable_adapters for layer in switched):
        with _upstream(self) as models:
            yield models
        return
    for layer in switched:
        layer._disable_adapters = True
    try:
        yield self.unwrapped_models
    finally:
        for layer in switched:
            layer._disable_adapters = False


def install() -> None:
    """Replace the context in which the trainer runs the reference."""
    MegatronRLHFTrainer.null_ref_context = null_ref_context
