"""Load Hugging Face weights into Megatron faster: read once, and straight to the GPU.

``one_read``: ms-swift reads the whole model for the policy and again for the reference from the
same files (``swift/megatron/trainers/base.py: _prepare_peft_model``, ``rlhf_mixin.py:
prepare_model``), both through one bridge. The second read of a folder becomes a copy of the
policy's parameters and persistent buffers on the device, if all agree in name, shape and type;
between the two reads they have only been moved into Megatron's buffers. A resume reads the policy
from elsewhere (another folder, or Megatron's format), so that it reads both.

``device_read``: mcore-bridge stacks and concatenates the weights of a layer's experts on the CPU
before it copies them to the GPU (``mcore_bridge/bridge/gpt_bridge.py: _set_mlp_state``): on one
core, as torchrun sets ``OMP_NUM_THREADS=1``, from pages of the file into fresh memory, twice. On
the GPU the same moves cost nothing and change no byte. Quantized weights are unpacked as upstream
does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from mcore_bridge.bridge import gpt_bridge
from mcore_bridge.bridge.gpt_bridge import GPTBridge
from mcore_bridge.utils import SafetensorLazyLoader, get_logger, unwrap_model
from safetensors import safe_open


def install_one_read() -> None:
    """Let the second read of a folder copy what the first one has read."""
    GPTBridge.load_weights = _reading_once(GPTBridge.load_weights)


def install_device_read() -> None:
    """Let weights be read to the GPU."""
    GPTBridge.load_weights = _reading_to_gpu(GPTBridge.load_weights)


def _reading_once(read: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(read)
    def load_weights(
        self: Any,
        mg_models: list[Any],
        hf_model_dir: str,
        peft_format: bool = False,
        adapter_name: str = "default",
        converter: Callable[..., Any] | None = None,
    ) -> None:
        """Copy the weights if the last call read the same folder, otherwise read them."""
        is_plain = not peft_format and converter is None
        folder, models = os.path.realpath(hf_model_dir), unwrap_model(mg_models)
        before, self.one_read = getattr(self, "one_read", None), None
        if is_plain and before is not None and before[0] == folder:
            reason = copy(before[1], models)
            get_logger().info(f"one read of {folder}: {reason or 'weights copied on the device'}")
            if not reason:
                return
        read(self, mg_models, hf_model_dir, peft_format, adapter_name, converter)
        if is_plain and before is None:
            self.one_read = (folder, models)

    return load_weights


def copy(source: list[Any], target: list[Any]) -> str:
    """Copy all tensors that a read would write; where they do not agree, return why instead."""
    old, new = dict(_tensors(source)), dict(_tensors(target))
    reason = difference(old, new)
    if not reason:
        with torch.no_grad():
            for name, tensor in new.items():
                tensor.data.copy_(old[name].data)
    return reason


def difference(source: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    """Return why the tensors of ``target`` cannot be a copy of ``source``; empty if they can.

    A wider type in the target would keep digits of the file that the source has lost; the bytes of
    a quantized tensor are not numbers of their own.
    """
    only = sorted(source.keys() ^ target.keys())
    if only:
        return f"{only[0]} is only in one of them"
    for name, tensor in target.items():
        seen = [f"{tuple(each.shape)} {each.dtype}" for each in (tensor, source[name])]
        if seen[0] != seen[1]:
            return f"{name} is {seen[0]}, not {seen[1]}"
        if any(type(each.data) is not torch.Tensor for each in (tensor, source[name])):
            return f"{name} is quantized"
    return ""


def _tensors(models: list[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters and persistent buffers of all chunks of a model, by name."""
    for chunk, model in enumerate(models):
        for name, parameter in model.named_parameters():
            yield f"{chunk}.{name}", parameter
        for path, module in model.named_modules():
            for name, buffer in module.named_buffers(recurse=False):
                if name not in module._non_persistent_buffers_set:
                    yield f"{chunk}.{path}.{name}", buffer


class DeviceLoader(SafetensorLazyLoader):  # type: ignore[misc]
    """Reads tensors to this rank's GPU."""

    def _open_file(self, filename: str) -> Any:
        """Open a file once (of the same name in ``mcore_bridge/utils/safetensors.py``)."""
        if filename not in self._file_handles:
            path = Path(self.hf_model_dir) / filename
            device = f"cuda:{torch.cuda.current_device()}"
            self._file_handles[filename] = safe_open(path, framework="pt", device=device)
        return self._file_handles[filename]


def _reading_to_gpu(read: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(read)
    def load_weights(self: Any, mg_models: list[Any], *args: Any, **kwargs: Any) -> None:
        """Read to the GPU; to the CPU if the weights are quantized or stay there."""
        is_quantized = getattr(self.config.hf_config, "quantization_config", None) is not None
        on_gpu = any(p.is_cuda for model in mg_models for p in model.parameters())
        if on_gpu and not is_quantized:
            gpt_bridge.SafetensorLazyLoader = DeviceLoader
        try:
            read(self, mg_models, *args, **kwargs)
        finally:
            gpt_bridge.SafetensorLazyLoader = SafetensorLazyLoader

    return load_weights
