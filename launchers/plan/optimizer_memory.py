"""Bytes of the optimizer on the GPU: what stays, and what a step needs for a moment."""

from __future__ import annotations

from launchers.plan.optimizer_parts import CHUNK
from launchers.plan.training_job import BYTES, Training


def kept(training: Training) -> float:
    """Return the bytes that stay on the GPU for each parameter whose state the rank keeps.

    Sources: megatron-core 0.18 ``optimizer/distrib_optimizer.py`` and
    ``optimizer/cpu_offloading/hybrid_optimizer.py``; Transformer Engine
    ``pytorch/optimizers/fused_adam.py`` (the fp32 master is kept as the 16 bits that bf16 weights
    lack, ``store_param_remainders``).

    >>> from launchers.plan.layout import Layout
    >>> one = Layout(nodes=1, gpus_per_node=1)
    >>> kept(Training(layout=one)), kept(Training(layout=one, precision_aware=True))
    (12.0, 10.0)
    """
    left = 1 - training.optimizer_offload
    if training.optimizer != "adam":
        return 8.0 * left  # fp32 master and one momentum
    if not training.precision_aware:
        # the fp32 shard of the weights stays on the GPU even when offloaded
        return 4.0 + 8.0 * left
    if training.offloads:  # the hybrid optimizer keeps a plain fp32 copy
        return 12.0 * left
    moments = BYTES[training.exp_avg_dtype] + BYTES[training.exp_avg_sq_dtype]
    return 2.0 + moments


def passing(training: Training, dense: float, experts: float) -> float:
    """Return the bytes that a step needs while it runs, beside what is kept.

    Transformer Engine's FusedAdam makes fp32 copies of all moments that are not fp32 of a
    parameter group at once (``get_unscaled_state``); experts are a group of their own. Without the
    precision-aware optimizer, bf16 gradients are copied to fp32 (``optimizer.py``:
    ``_copy_model_grads_to_main_grads``).

    Args:
        training: the job.
        dense: dense parameters whose state the rank keeps.
        experts: the same of experts.
    """
    if training.optimizer != "adam":
        return 4.0 * (dense + experts)
    if not training.precision_aware or training.offloads:
        copies = 4 - BYTES[training.main_grads_dtype] and 4
        on_gpu = 1 - training.optimizer_offload if training.precision_aware else 1.0
        return copies * on_gpu * (dense + experts)
    narrow = sum(BYTES[d] < 4 for d in (training.exp_avg_dtype, training.exp_avg_sq_dtype))
    group = max(dense, experts)
    return 4.0 * narrow * (min(group, CHUNK) if training.chunked_step else group)
