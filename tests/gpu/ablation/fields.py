"""Fields of a running model that may be switched between two steps.

A name is listed if upstream reads it in each forward or backward pass. What upstream reads once,
while the model is built, needs a start of its own. Read in megatron-core 0.18.0
(MC), mcore-bridge 1.6.0 (MB) and Transformer Engine 2.12.0 (TE).
"""

from __future__ import annotations

CONFIG = {
    "recompute_granularity": "MB transformer_block.py forward: full or not; the rest is MODULES",
    "recompute_method": "MB transformer_block.py _checkpointed_forward",
    "recompute_num_layers": "MB transformer_block.py _checkpointed_forward",
    "moe_router_fusion": "MC moe/router.py routing and _apply_aux_loss",
    "apply_rope_fusion": "MB gpt_model.py forward, transformer_layer.py forward; MC rope_utils.py",
    "moe_permute_fusion": "MC moe/token_dispatcher.py; its index tensors are moved with it",
    "cross_entropy_loss_fusion": "MC language_module.py compute_language_model_loss",
    "cross_entropy_fusion_impl": "MC language_module.py compute_language_model_loss",
    "bias_activation_fusion": "MC moe/experts.py TEGroupedMLP.forward",
    "bias_dropout_fusion": "MC transformer_layer.py _forward_attention and _forward_post_mlp",
    "moe_router_dtype": "MC moe/router.py gating",
}
"""Fields of the model's configuration, which all its modules share or have a copy of."""

MODULES = {
    "activation_recompute": "MC moe/experts.py TEGroupedMLP.forward: recompute_modules moe_act",
    "moe_layer_recompute": "MC moe/moe_layer.py forward: recompute_modules moe",
    "checkpoint_core_attention": "MC attention.py forward: recompute_modules core_attn",
    "recompute_pre_mlp_layernorm": "MC transformer_layer.py _forward_mlp: modules layernorm",
    "fuse_wgrad_accumulation": "TE linear.py, layernorm_linear.py, grouped_linear.py forward",
}
"""Attributes that modules take from the configuration when built, and read when they run."""

DDP = {
    "check_for_nan_in_grad": "MC param_and_grad_buffer.py start_grad_sync; ms-swift sets it always",
    "check_for_large_grads": "MC param_and_grad_buffer.py start_grad_sync",
}
"""Fields of the configuration of DistributedDataParallel and of its groups of buckets."""

ENV = {
    "NVTE_USE_CUTLASS_GROUPED_GEMM": "TE C++, in each grouped product",
    "NVTE_FLASH_ATTN": "TE dot_product_attention/utils.py get_attention_backend",
    "NVTE_FUSED_ATTN": "TE dot_product_attention/utils.py get_attention_backend",
}
"""Environment variables: ``os.environ`` calls putenv, so ``getenv`` in C++ sees them too. TE caches
its choice of an attention backend, so the cache is cleared."""

GC = ("on", "off", "frozen")
PIN = ("none", "numa", "share")
"""CPU cores of a rank: unchanged, those of its GPU's NUMA node, or an equal share of these."""
