"""The patches: which upstream functions each training feature replaces or relies on."""

from __future__ import annotations

import os

from launchers.upstream.patches import ACCEPT, Patch, Verdict, functions, judge

_SFT = "swift.pipelines.train.sft:SwiftSft"
_MEGATRON_SFT = "swift.megatron.pipelines.train.sft:MegatronSft"
_TRAINER = "swift.megatron.trainers.base:BaseMegatronTrainer"
_HF = "transformers.trainer:Trainer"
_FLOW = "swift.megatron.callbacks.default_flow:DefaultFlowCallback"
_RLHF = "swift.megatron.trainers.rlhf_mixin:MegatronRLHFTrainer"
_DPO = "swift.megatron.trainers.dpo_trainer"
_WRAP = "swift.megatron.utils.megatron_lm_utils:wrap_model"
_BRIDGE = "mcore_bridge.bridge.gpt_bridge:GPTBridge"
_BUCKETS = "megatron.core.distributed.param_and_grad_buffer:_ParamAndGradBucketGroup"
_DISTRIBUTED = "megatron.core.optimizer.distrib_optimizer:DistributedOptimizer"
_SAVES = "megatron.core.dist_checkpointing.strategies"
_CLIP = "megatron.core.optimizer.clip_grads"
_MOE = "megatron.core.transformer.moe"
_GATHER = "megatron.core.transformer.moe.token_dispatcher:MoEAllGatherTokenDispatcher"
_ADAM = "transformer_engine.pytorch.optimizers.fused_adam:FusedAdam"
_BY_PACK = "set recipe.pairWeights: pack"
_ALLTOALL = "set recipe.args.moe_token_dispatcher_type: alltoall"
PATCHES = (
    Patch(
        "startup_megatron",
        "speed",  # it measures only: without it the phases of the start are not known
        functions(
            ms_swift=(
                *(f"{_MEGATRON_SFT}.{name}" for name in ("__init__", "run", "_set_seed")),
                "swift.pipelines.base:SwiftPipeline.__init__",
                *(f"{_SFT}.{name}" for name in ("_prepare_template", "_prepare_dataset")),
                *(f"{_TRAINER}.{name}" for name in ("__init__", "_prepare_peft_model")),
                *(f"{_TRAINER}.{name}" for name in ("prepare_model", "get_batch")),
                *(f"{_TRAINER}.{name}" for name in ("get_optimizer_and_scheduler",)),
                f"{_TRAINER}._load_checkpoint",
            )
        ),
    ),
    Patch(
        "startup_transformers",
        "speed",
        functions(
            ms_swift=(
                *("swift.pipelines.base:SwiftPipeline.__init__",),
                *("swift.pipelines.base:SwiftPipeline._set_seed",),
                *(f"{_SFT}.{name}" for name in ("__init__", "run", "_prepare_model_tokenizer")),
                f"{_SFT}._prepare_dataset",
            )
        ),
    ),
    Patch(
        "background_save",
        "speed",  # without it a save stops training until it is written
        functions(
            ms_swift=(
                f"{_TRAINER}.save_checkpoint",
                *(f"{_TRAINER}.{name}" for name in ("setup_model_training", "run_train_step")),
                "swift.megatron.utils.megatron_lm_utils:save_mcore_checkpoint",
            ),
            megatron_core=(
                "megatron.core.dist_checkpointing.serialization:save",
                f"{_SAVES}.fully_parallel:FullyParallelSaveStrategyWrapper.save",
                *(
                    f"{_SAVES}.torch:TorchDistSaveShardedStrategy.{name}"
                    for name in ("save", "async_save", "_get_save_and_finalize_callbacks")
                ),
                *(
                    f"{_SAVES}.filesystem_async:{name}"
                    for name in (
                        *("FileSystemWriterAsync.prepare_write_data", "get_write_results_queue"),
                        "FileSystemWriterAsync.finish",
                    )
                ),
            ),
        ),
    ),
    Patch(
        "safetensors_last",
        "speed",  # without it they are written at each save
        functions(ms_swift=(f"{_TRAINER}.save_checkpoint",)),
    ),
    Patch(
        "narrow_moments",
        "speed",  # checkpoints of either kind load with and without it
        functions(
            megatron_core=tuple(
                f"{_DISTRIBUTED}.{name}"
                for name in (
                    *("sharded_state_dict", "load_state_dict"),
                    "_get_main_param_and_optimizer_states",
                    "_set_main_param_and_optimizer_states",
                )
            ),
            transformer_engine=tuple(
                f"{_ADAM}.{name}"
                for name in (
                    *("state_dict", "load_state_dict"),
                    *("get_unscaled_state", "set_scaled_state"),
                )
            ),
        ),
    ),
    Patch(
        "seal_megatron",
        "required",
        functions(ms_swift=(f"{_TRAINER}.run_train_step", f"{_TRAINER}.save_checkpoint")),
    ),
    Patch(
        "seal_transformers",
        "required",
        functions(
            transformers=(
                "transformers.trainer_utils:rotate_checkpoints",
                f"{_HF}._rotate_checkpoints",
            )
        ),
    ),
    Patch(
        "merge_last",
        "numbers",  # with each merge the weights drift
        functions(
            ms_swift=tuple(
                f"{_TRAINER}.{name}"
                for name in (
                    *("run_train_step", "save_checkpoint"),
                    *("merge_lora_adapters", "unmerge_lora_adapters"),
                )
            )
        ),
    ),
    Patch(
        "metrics_megatron",
        "required",
        functions(
            ms_swift=(f"{_TRAINER}.run_train_step", f"{_TRAINER}.train_step"),
            megatron_core=(f"{_MOE}.moe_layer:MoELayer.route",),
        ),
    ),
    Patch(
        "metrics_transformers",
        "required",
        functions(transformers=(f"{_HF}.get_batch_samples",)),
    ),
    Patch(
        "epoch_order",
        "numbers",
        functions(
            ms_swift=(
                "swift.dataloader.shard:DataLoaderShard.set_epoch",
                "swift.trainers.mixin:SwiftMixin._patch_skip_first_batches",
            )
        ),
    ),
    Patch(
        "partial_window",
        "numbers",
        functions(
            ms_swift=("swift.rlhf_trainers.dpo_trainer:DPOTrainer.compute_loss",),
            transformers=(f"{_HF}.get_batch_samples", f"{_HF}.training_step"),
        ),
    ),
    Patch(
        "first_step_megatron",
        "speed",  # it measures only; on another source its formulas may not be the trainer's
        functions(
            ms_swift=(
                *(f"{_TRAINER}.run_train_step", f"{_TRAINER}.train_step"),
                f"{_DPO}:MegatronDPOTrainer.loss_func",
                "swift.rlhf_trainers.dpo_trainer:DPOTrainer.dpo_loss",
            )
        ),
    ),
    Patch(
        "first_step_transformers",
        "speed",
        functions(
            ms_swift=tuple(
                f"swift.rlhf_trainers.dpo_trainer:DPOTrainer.{name}"
                for name in ("dpo_loss", "get_batch_loss_metrics", "compute_loss")
            )
        ),
    ),
    Patch(
        "nonfinite_megatron",
        "speed",  # it notes rows only: without it the error of grad_check names none
        functions(
            ms_swift=(
                *(f"{_TRAINER}.run_train_step", f"{_TRAINER}.train_step"),
                *(f"{_TRAINER}.setup_training", f"{_TRAINER}.setup_model_training"),
                *(f"{_TRAINER}._prepare_data_iterator", f"{_TRAINER}._prepare_dataloader"),
                *(f"{_TRAINER}._create_dataloader", f"{_TRAINER}.cyclic_iter"),
                *("swift.dataset.packing:PackingDataset.__getitem__",),
            )
        ),
    ),
    Patch(
        "nonfinite_transformers",
        "required",  # upstream continues without an error
        functions(
            transformers=(f"{_HF}.get_batch_samples", f"{_HF}._get_grad_norm"),
            ms_swift=(
                "swift.trainers.mixin:DataLoaderMixin.get_train_dataloader",
                "swift.trainers.mixin:SwiftMixin._fix_grad_norm_nan",
                "swift.dataset.packing:PackingDataset.__getitem__",
            ),
        ),
    ),
    # without it SIGTERM saves nothing
    Patch("stop_megatron", "speed", functions(ms_swift=(_FLOW, f"{_TRAINER}.run_train_step"))),
    Patch(
        "one_read",
        "speed",
        functions(
            mcore_bridge=(f"{_BRIDGE}.load_weights",),
            ms_swift=(f"{_TRAINER}._prepare_peft_model", f"{_RLHF}.prepare_model"),
        ),
    ),
    Patch(
        "device_read",
        "speed",
        functions(
            mcore_bridge=(
                *(f"{_BRIDGE}.load_weights", f"{_BRIDGE}._set_mlp_state"),
                "mcore_bridge.utils.safetensors:SafetensorLazyLoader",
            )
        ),
    ),
    Patch(
        "checked_read",
        "numbers",  # without it tensors that could not be read keep their initial values
        functions(ms_swift=("swift.megatron.init:_patch_torch_FileSystemReader",)),
        fixed=("0ac105a7ad1fae1a",),
        fixed_by="ms-swift asks its threads for their result (issue 10045)",
    ),
    Patch(
        "fused_norm",
        "speed",
        functions(
            megatron_core=(
                *(f"{_CLIP}:get_grad_norm_fp32", f"{_CLIP}:clip_grad_by_total_norm_fp32"),
                "megatron.core.utils:local_multi_tensor_applier",
                "megatron.core.utils:local_multi_tensor_l2_norm",
                "megatron.core.utils:local_multi_tensor_scale",
            ),
            transformer_engine=(
                "transformer_engine.pytorch.optimizers.multi_tensor_apply:MultiTensorApply",
            ),
        ),
    ),
    Patch(
        "grad_check",
        "speed",  # upstream's own check of each bucket stays
        functions(
            ms_swift=(_WRAP,),
            megatron_core=(
                *(f"{_BUCKETS}.check_grads", f"{_BUCKETS}.start_grad_sync"),
                f"{_CLIP}:get_grad_norm_fp32",
                "megatron.core.optimizer.layer_wise_optimizer:"
                "LayerWiseDistributedOptimizer.get_grad_norm",
                "megatron.core.optimizer.optimizer:MegatronOptimizer.clip_grad_norm",
                "megatron.core.optimizer.optimizer:ChainedOptimizer.step",
            ),
        ),
    ),
    Patch(
        "grouped_product",
        "speed",  # other kernels for the same products: they round as much as upstream's
        functions(
            ms_swift=(_WRAP,),
            megatron_core=(
                "megatron.core.extensions.transformer_engine:TEGroupedLinear.forward",
                "megatron.core.distributed.distributed_data_parallel:"
                "DistributedDataParallel._make_backward_post_hook",
                f"{_BUCKETS}.register_grad_ready",
            ),
            transformer_engine=(
                "transformer_engine.pytorch.cpp_extensions.gemm:general_grouped_gemm",
            ),
        ),
    ),
    Patch(
        "pack_lengths",
        "speed",
        functions(
            ms_swift=(
                "swift.megatron.utils.utils:get_packed_seq_params",
                "swift.utils.transformers_utils:get_packed_seq_params",
            )
        ),
    ),
    Patch(
        "chunked_adam",
        "numbers",  # moments that a step updated without the getter would be overwritten by copies
        functions(
            transformer_engine=tuple(
                f"{_ADAM}.{name}"
                for name in (
                    *("step", "__init__", "get_unscaled_state"),  # __init__ sets fuse_unscale
                    *("_apply_scale", "initialize_state"),
                )
            )
        ),
    ),
    Patch(
        "reference",
        "numbers",
        functions(
            ms_swift=(
                *(f"{_DPO}:MegatronDPOTrainer.{n}" for n in ("__init__", "loss_func")),
                *(f"{_DPO}:MegatronDPOTrainer.forward_step", f"{_DPO}:DummyDPOTrainer.__init__"),
                *(f"{_RLHF}.{name}" for name in ("prepare_model", "_load_checkpoint")),
                *(f"{_RLHF}.{name}" for name in ("_get_data_collator", "get_logps")),
                *(f"{_TRAINER}.{name}" for name in ("prepare_model", "_load_checkpoint")),
                *(f"{_TRAINER}.{name}" for name in ("setup_training", "get_batch")),
                *(f"{_TRAINER}.{name}" for name in ("_get_data_collator", "_all_reduce_metric")),
                "swift.rlhf_trainers.dpo_trainer:DPOTrainer.dpo_loss",
            )
        ),
        otherwise="set recipe.reference: online",
    ),
    Patch(
        "tokens",
        "speed",
        functions(
            ms_swift=(
                *(f"{_SFT}.{name}" for name in ("_prepare_dataset", "_get_dataset")),
                *(f"{_SFT}.{name}" for name in ("_encode_dataset", "_post_process_datasets")),
            )
        ),
    ),
    Patch(
        "packing",
        "speed",  # a step keeps upstream's packs: only which replica takes which differs
        functions(
            ms_swift=(
                *(f"{_TRAINER}.{name}" for name in ("_prepare_dataloader", "_create_dataloader")),
                "swift.megatron.arguments.megatron_args:MegatronArguments.init_iters",
                "swift.megatron.trainers.batch_sampler:MegatronPretrainingRandomSampler",
            )
        ),
    ),
    Patch(
        "evaluation",
        "numbers",  # of evaluations only: upstream's differ by their rows
        functions(
            ms_swift=(
                *(f"{_TRAINER}.{name}" for name in ("setup_training", "evaluate")),
                *(f"{_TRAINER}.{name}" for name in ("_prepare_data_iterator", "_log_callback")),
                *(f"{_TRAINER}.{name}" for name in ("_aggregated_metrics", "_all_reduce_metric")),
                *(
                    f"{_TRAINER}.{name}"
                    for name in ("_create_dataloader", "_determine_best_metric")
                ),
                *(f"{_DPO}:MegatronDPOTrainer.{n}" for n in ("loss_func", "forward_step")),
                "swift.megatron.trainers.utils:TrainerState",
                "swift.megatron.arguments.megatron_args:MegatronArguments.init_iters",
                "swift.megatron.trainers.batch_sampler:MegatronPretrainingSampler",
            )
        ),
        otherwise="set recipe.args.split_dataset_ratio: 0",
    ),
    Patch(
        "pair_weights",
        "numbers",
        functions(
            ms_swift=(
                f"{_DPO}:MegatronDPOTrainer.loss_func",
                f"{_DPO}:MegatronDPOTrainer.forward_step",
                f"{_RLHF}.get_logps",
                *(f"{_TRAINER}.{name}" for name in ("train_step", "_all_reduce_metric")),
                *(f"{_TRAINER}.{name}" for name in ("_aggregated_metrics", "_log_callback")),
                # its sampler is that of the patch packing
                *(f"{_TRAINER}.{name}" for name in ("_prepare_dataloader", "_create_dataloader")),
                "swift.megatron.trainers.batch_sampler:MegatronPretrainingRandomSampler",
                "swift.megatron.callbacks.default_flow:DefaultFlowCallback.on_step_end",
                "swift.rlhf_trainers.dpo_trainer:DPOTrainer.dpo_loss",
            ),
            megatron_core=("megatron.core.pipeline_parallel.schedules:forward_step_calc_loss",),
        ),
        otherwise=_BY_PACK,
    ),
    Patch(
        "pair_weights_transformers",
        "numbers",
        functions(
            ms_swift=tuple(
                f"swift.rlhf_trainers.dpo_trainer:DPOTrainer.{name}"
                for name in (
                    *("concatenated_forward", "get_batch_loss_metrics", "compute_loss"),
                    "get_batch_samples",
                )
            ),
            transformers=(f"{_HF}.get_batch_samples", f"{_HF}.training_step"),
        ),
        otherwise=_BY_PACK,
    ),
    Patch(
        "equal_packs",
        "required",  # upstream's dispatcher does not work with its packs
        functions(
            ms_swift=(
                f"{_TRAINER}._get_data_collator",
                "swift.megatron.utils.utils:get_padding_to",
            ),
            mcore_bridge=("mcore_bridge.config.model_config:ModelConfig.__post_init__",),
        ),
        otherwise=_ALLTOALL,
    ),
    Patch(
        "filler_mask",
        "numbers",  # without it the balancing loss includes filler
        functions(
            ms_swift=(f"{_TRAINER}._prepare_batch", "swift.megatron.trainers.utils:prepare_batch"),
            mcore_bridge=(
                "mcore_bridge.model.modules.transformer_layer:TransformerLayer.forward",
                "mcore_bridge.model.modules.topk_router:TopKRouter._apply_expert_bias",
            ),
            megatron_core=(
                *(f"{_MOE}.moe_layer:MoELayer.{name}" for name in ("forward", "route")),
                f"{_MOE}.router:TopKRouter.routing",
                f"{_MOE}.moe_utils:compute_routing_scores_for_aux_loss",
                f"{_MOE}.moe_utils:get_tokens_per_expert_and_token_count",
                f"{_MOE}.moe_utils:switch_load_balancing_loss_func",
            ),
        ),
    ),
    Patch(
        "rank_order",
        "numbers",
        functions(
            megatron_core=(
                *(f"{_GATHER}.{name}" for name in ("token_dispatch", "combine_preprocess")),
                f"{_GATHER}.token_combine",
            )
        ),
        otherwise=_ALLTOALL,
    ),
)
"""A feature without a patch replaces nothing of upstream (``tests/launchers/upstream``)."""


def of_feature(feature: str) -> Verdict | None:
    """Judge the patch of a feature in this environment; None if the feature has none."""
    patch = next((each for each in PATCHES if each.feature == feature), None)
    return None if patch is None else judge(patch, os.environ.get(ACCEPT, ""))
