"""Loaded into Megatron DPO and KTO: policy and reference take their weights from one read.

ms-swift reads the whole model for the policy and again for the reference, from the same files
(``swift/megatron/trainers/base.py: _prepare_peft_model``, ``rlhf_mixin.py: prepare_model``), both
through one bridge. Here the second read of the same folder copies the policy's parameters and
persistent buffers on the device, if all agree in name, shape and type; nothing has changed them
in between but the move into Megatron's buffers. A resume reads the policy from elsewhere (another
folder, or Megatron's format), so it reads both.
"""

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from mcore_bridge.bridge.gpt_bridge import GPTBridge
from mcore_bridge.utils import get_logger, unwrap_model

from launchers.training.upstream import require_parameters
from launchers.training.weight_copy import PARAMETERS, Tensor, unlike

_read: Callable[..., None] = GPTBridge.load_weights
require_parameters(_read, *PARAMETERS)


@functools.wraps(_read)
def load_weights(
    self: Any,
    mg_models: list[Any],
    hf_model_dir: str,
    peft_format: bool = False,
    adapter_name: str = "default",
    converter: Callable[..., Any] | None = None,
) -> None:
    """Copy what was just read from the same folder, or read it."""
    whole = not peft_format and converter is None
    folder, models = os.path.realpath(hf_model_dir), unwrap_model(mg_models)
    before, self.one_read = getattr(self, "one_read", None), None
    if whole and before is not None and before[0] == folder:
        why = _copy(before[1], models)
        get_logger().info(f"one read of {folder}: {why or 'weights copied on the device'}")
        if not why:
            return
    _read(self, mg_models, hf_model_dir, peft_format, adapter_name, converter)
    if whole and before is None:
        self.one_read = (folder, models)


def _copy(source: list[Any], target: list[Any]) -> str:
    """Copy all tensors that a read would write; say why not, where they do not agree."""
    old, new = dict(_tensors(source)), dict(_tensors(target))
    why = unlike(_seen(old), _seen(new))
    if not why:
        with torch.no_grad():
            for name, tensor in new.items():
                tensor.data.copy_(old[name].data)
    return why


def _tensors(models: list[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """List parameters and persistent buffers of all chunks of a model."""
    for chunk, model in enumerate(models):
        for name, parameter in model.named_parameters():
            yield f"{chunk}.{name}", parameter
        for path, module in model.named_modules():
            for name, buffer in module.named_buffers(recurse=False):
                if name not in module._non_persistent_buffers_set:
                    yield f"{chunk}.{path}.{name}", buffer


def _seen(tensors: dict[str, torch.Tensor]) -> dict[str, Tensor]:
    return {
        name: Tensor(
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype),
            is_plain=type(tensor.data) is torch.Tensor,
        )
        for name, tensor in tensors.items()
    }


GPTBridge.load_weights = load_weights
