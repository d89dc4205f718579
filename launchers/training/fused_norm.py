"""Loaded into Megatron training: the gradients' norm is taken by Transformer Engine's kernels.

megatron-core 0.18 asks Transformer Engine for four functions, of which its 2.12 has three, and
then falls back to PyTorch for all of them where Apex is missing (``megatron/core/optimizer/
clip_grads.py``): a norm, rounded to bf16, and a wait of the host for each weight, two more kernels
for each to clip. Those are 3,000 weights where 48 layers have 32 experts on each GPU.
megatron-core 0.16 uses the three as they are used here; the fourth only saves the wait for the
norm itself.
"""

from typing import Any

from megatron.core.optimizer import clip_grads
from transformer_engine.pytorch import optimizers

NAMES = {
    "multi_tensor_applier": "multi_tensor_applier",
    "l2_norm_impl": "multi_tensor_l2norm",
    "multi_tensor_scale_impl": "multi_tensor_scale",
}
"""Megatron's names, and Transformer Engine's for the same."""


def _fuse() -> None:
    """Replace the fallback; leave all as it is where it is not used, or is another version's."""
    local = getattr(getattr(clip_grads, "l2_norm_impl", None), "__module__", "")
    found: dict[str, Any] = {
        ours: getattr(optimizers, theirs)
        for ours, theirs in NAMES.items()
        if hasattr(clip_grads, ours) and hasattr(optimizers, theirs)
    }
    if local == "megatron.core.utils" and len(found) == len(NAMES):
        vars(clip_grads).update(found)


_fuse()
