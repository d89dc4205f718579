"""Take the gradients' norm with Transformer Engine's kernels.

megatron-core 0.18 imports four functions from Transformer Engine. Version 2.12 has only three of
them, so that without Apex megatron-core falls back to PyTorch for all (``megatron/core/optimizer/
clip_grads.py``): for each weight a norm rounded to bf16 and a synchronisation with the GPU, and two
more kernels to clip it. With 48 layers and 32 experts on each GPU that is 3,000 weights.
megatron-core 0.16 uses the three functions as they are used here; the fourth only saves the
synchronisation for the norm itself. With apex, megatron-core uses apex's kernels and not its
fallback, which then stays as it is.
"""

from typing import Any

from megatron.core.optimizer import clip_grads
from transformer_engine.pytorch import optimizers

NAMES = {
    "multi_tensor_applier": "multi_tensor_applier",
    "l2_norm_impl": "multi_tensor_l2norm",
    "multi_tensor_scale_impl": "multi_tensor_scale",
}
"""Map of megatron-core's names to Transformer Engine's."""


def install() -> None:
    """Replace the fallback; change nothing if it is not in use, or not the one known here."""
    local = getattr(getattr(clip_grads, "l2_norm_impl", None), "__module__", "")
    found: dict[str, Any] = {
        ours: getattr(optimizers, theirs)
        for ours, theirs in NAMES.items()
        if hasattr(clip_grads, ours) and hasattr(optimizers, theirs)
    }
    if local == "megatron.core.utils" and len(found) == len(NAMES):
        vars(clip_grads).update(found)
