"""Loaded into Megatron training: weights are read from their files to the GPU, tensor by tensor.

mcore-bridge stacks and concatenates the weights of a layer's experts on the CPU before it copies
them over (``mcore_bridge/bridge/gpt_bridge.py: _set_mlp_state``): on one core, as torchrun sets
``OMP_NUM_THREADS=1``, from pages of the file into fresh memory, and that twice. On the GPU the
same moves cost nothing; they change no byte. Quantized weights are unpacked as upstream does it.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mcore_bridge.bridge import gpt_bridge
from mcore_bridge.utils import SafetensorLazyLoader
from safetensors import safe_open

from launchers.training.upstream import require_parameters
from launchers.training.weight_copy import PARAMETERS

_read: Callable[..., None] = gpt_bridge.GPTBridge.load_weights
require_parameters(_read, *PARAMETERS)


class DeviceLoader(SafetensorLazyLoader):  # type: ignore[misc]
    """Reads tensors to this rank's GPU."""

    def _open_file(self, filename: str) -> Any:
        """Open a file once (of the same name in ``mcore_bridge/utils/safetensors.py``)."""
        if filename not in self._file_handles:
            path = Path(self.hf_model_dir) / filename
            device = f"cuda:{torch.cuda.current_device()}"
            self._file_handles[filename] = safe_open(path, framework="pt", device=device)
        return self._file_handles[filename]


@functools.wraps(_read)
def load_weights(self: Any, mg_models: list[Any], *args: Any, **kwargs: Any) -> None:
    """Read the weights; on the CPU where they are quantized, or stay there."""
    quantized = getattr(self.config.hf_config, "quantization_config", None) is not None
    on_gpu = any(p.is_cuda for model in mg_models for p in model.parameters())
    if on_gpu and not quantized:
        gpt_bridge.SafetensorLazyLoader = DeviceLoader
    try:
        _read(self, mg_models, *args, **kwargs)
    finally:
        gpt_bridge.SafetensorLazyLoader = SafetensorLazyLoader


gpt_bridge.GPTBridge.load_weights = load_weights
