"""The patches of how weights are kept, multiplied, read and written; part of the table."""

from launchers.upstream.patches import Patch, functions

_TRAINER = "swift.megatron.trainers.base:BaseMegatronTrainer"
_RLHF = "swift.megatron.trainers.rlhf_mixin:MegatronRLHFTrainer"
_UTILS = "swift.megatron.utils.megatron_lm_utils"
_BRIDGE = "mcore_bridge.bridge.gpt_bridge:GPTBridge"
_BUCKETS = "megatron.core.distributed.param_and_grad_buffer:_ParamAndGradBucketGroup"
_DISTRIBUTED = "megatron.core.optimizer.distrib_optimizer:DistributedOptimizer"
_GROUPED = "megatron.core.extensions.transformer_engine:TEGroupedLinear"
PATCHES = (
    Patch(
        "one_read",
        "speed",
        (
            *functions(_BRIDGE, "load_weights"),
            *functions(_TRAINER, "_prepare_peft_model"),
            *functions(_RLHF, "prepare_model"),
        ),
    ),
    Patch(
        "device_read",
        "speed",
        (
            *functions(_BRIDGE, "load_weights _set_mlp_state"),
            *functions("mcore_bridge.utils.safetensors", "SafetensorLazyLoader"),
        ),
    ),
    Patch(
        "shard_writes",
        "speed",  # the same files
        (
            *functions(_BRIDGE, "export_weights save_weights"),
            *functions("mcore_bridge.utils.safetensors", "StreamingSafetensorSaver"),
        ),
    ),
    Patch(
        "checked_read",
        "numbers",  # without it tensors that could not be read keep their initial values
        functions("swift.megatron.init", "_patch_torch_FileSystemReader"),
        fixed=("0ac105a7ad1fae1ad9edcf85bdac4cec4d793e02c40f2ef13379ba173ce40035",),
        fixed_by="ms-swift asks its threads for their result (issue 10045)",
    ),
    Patch(
        "grouped_product",
        "speed",  # other kernels for the same products: they round as much as upstream's
        (
            *functions(_UTILS, "wrap_model"),
            *functions(_GROUPED, "forward"),
            *functions(
                "megatron.core.distributed.distributed_data_parallel:DistributedDataParallel",
                "_make_backward_post_hook",
            ),
            *functions(_BUCKETS, "register_grad_ready"),
            *functions("transformer_engine.pytorch.cpp_extensions.gemm", "general_grouped_gemm"),
        ),
    ),
    Patch(
        "stacked_adapters",
        "speed",  # each expert's adapter keeps its values; without it stacks cannot be resumed
        (
            *functions(
                "mcore_bridge.tuners.lora:LoraParallelLinear",
                "update_layer forward sharded_state_dict get_delta_weights",
            ),
            *functions(_UTILS, "get_sharded_sd_metadata save_mcore_checkpoint"),
            *functions(_GROUPED, "_sharded_state_dict_grouped"),
            *functions(
                _DISTRIBUTED,
                "sharded_param_state_dp_reshardable load_parameter_state_from_dp_reshardable "
                "_compute_per_buffer_param_layout",
            ),
        ),
    ),
)
