"""The patches: which upstream functions each training feature replaces or relies on."""

import os

from launchers.upstream import weight_patches
from launchers.upstream.patches import ACCEPT, Patch, Verdict, functions, judge
from launchers.upstream.prompt_patch import PROMPT_ONCE

_SFT = "swift.pipelines.train.sft:SwiftSft"
_MEGATRON_SFT = "swift.megatron.pipelines.train.sft:MegatronSft"
_TRAINER = "swift.megatron.trainers.base:BaseMegatronTrainer"
_HF = "transformers.trainer:Trainer"
_RLHF = "swift.megatron.trainers.rlhf_mixin:MegatronRLHFTrainer"
_DPO = "swift.megatron.trainers.dpo_trainer:MegatronDPOTrainer"
_HF_DPO = "swift.rlhf_trainers.dpo_trainer:DPOTrainer"
_SAMPLERS = "swift.megatron.trainers.batch_sampler"
_ARGUMENTS = "swift.megatron.arguments.megatron_args:MegatronArguments"
_UTILS = "swift.megatron.utils.megatron_lm_utils"
_BUCKETS = "megatron.core.distributed.param_and_grad_buffer:_ParamAndGradBucketGroup"
_DISTRIBUTED = "megatron.core.optimizer.distrib_optimizer:DistributedOptimizer"
_SAVES = "megatron.core.dist_checkpointing.strategies"
_OPTIMIZER = "megatron.core.optimizer.optimizer"
_CLIP = "megatron.core.optimizer.clip_grads"
_MOE = "megatron.core.transformer.moe"
_GATHER = "megatron.core.transformer.moe.token_dispatcher:MoEAllGatherTokenDispatcher"
_ADAM = "transformer_engine.pytorch.optimizers.fused_adam:FusedAdam"
_BY_PACK = "set recipe.pairWeights: pack"
_ALLTOALL = "set recipe.args.moe_token_dispatcher_type: alltoall"
PATCHES = (
    *weight_patches.PATCHES,
    Patch(
        "startup_megatron",
        "speed",  # it measures only: without it the phases of the start are not known
        (
            *functions(_MEGATRON_SFT, "__init__ run _set_seed"),
            *functions("swift.pipelines.base:SwiftPipeline", "__init__"),
            *functions(_SFT, "_prepare_template _prepare_dataset"),
            *functions(
                _TRAINER,
                "__init__ _prepare_peft_model prepare_model get_batch "
                "get_optimizer_and_scheduler _load_checkpoint",
            ),
        ),
    ),
    Patch(
        "startup_transformers",
        "speed",
        (
            *functions("swift.pipelines.base:SwiftPipeline", "__init__ _set_seed"),
            *functions(_SFT, "__init__ run _prepare_model_tokenizer _prepare_dataset"),
        ),
    ),
    Patch(
        "background_save",
        "speed",  # without it a save stops training until it is written
        (
            *functions(_TRAINER, "save_checkpoint setup_model_training run_train_step"),
            *functions(_UTILS, "save_mcore_checkpoint"),
            *functions("megatron.core.dist_checkpointing.serialization", "save"),
            *functions(f"{_SAVES}.fully_parallel:FullyParallelSaveStrategyWrapper", "save"),
            *functions(
                f"{_SAVES}.torch:TorchDistSaveShardedStrategy",
                "save async_save _get_save_and_finalize_callbacks",
            ),
            *functions(
                f"{_SAVES}.filesystem_async:FileSystemWriterAsync", "prepare_write_data finish"
            ),
            *functions(f"{_SAVES}.filesystem_async", "get_write_results_queue"),
        ),
    ),
    Patch(
        "safetensors_last",
        "speed",  # without it they are written at each save
        functions(_TRAINER, "save_checkpoint"),
    ),
    Patch(
        "narrow_moments",
        "speed",  # checkpoints of either kind load with and without it
        (
            *functions(
                _DISTRIBUTED,
                "sharded_state_dict load_state_dict "
                "_get_main_param_and_optimizer_states "
                "_set_main_param_and_optimizer_states",
            ),
            *functions(_ADAM, "state_dict load_state_dict get_unscaled_state set_scaled_state"),
        ),
    ),
    Patch("seal_megatron", "required", functions(_TRAINER, "run_train_step save_checkpoint")),
    Patch(
        "seal_transformers",
        "required",
        (
            *functions("transformers.trainer_utils", "rotate_checkpoints"),
            *functions(_HF, "_save_checkpoint _rotate_checkpoints"),
            *functions("swift.trainers.mixin:SwiftMixin", "_save_checkpoint"),
        ),
    ),
    Patch(
        "merge_last",
        "numbers",  # with each merge the weights drift
        functions(
            _TRAINER, "run_train_step save_checkpoint merge_lora_adapters unmerge_lora_adapters"
        ),
    ),
    Patch(
        "metrics_megatron",
        "required",
        (
            *functions(_TRAINER, "run_train_step train_step"),
            *functions(f"{_MOE}.moe_layer:MoELayer", "route"),
        ),
    ),
    Patch("metrics_transformers", "required", functions(_HF, "get_batch_samples")),
    Patch(
        "epoch_order",
        "numbers",
        (
            *functions("swift.dataloader.shard:DataLoaderShard", "set_epoch"),
            *functions("swift.trainers.mixin:SwiftMixin", "_patch_skip_first_batches"),
        ),
    ),
    Patch(
        "partial_window",
        "numbers",
        (*functions(_HF_DPO, "compute_loss"), *functions(_HF, "get_batch_samples training_step")),
    ),
    Patch(
        "first_step_megatron",
        "speed",  # it measures only; on another source its formulas may not be the trainer's
        (
            *functions(_TRAINER, "run_train_step train_step"),
            *functions(_DPO, "loss_func"),
            *functions(_HF_DPO, "dpo_loss"),
        ),
    ),
    Patch(
        "first_step_transformers",
        "speed",
        functions(_HF_DPO, "dpo_loss get_batch_loss_metrics compute_loss"),
    ),
    Patch(
        "ledger_megatron",
        "speed",  # it records only: without it the run has no ledger
        (
            *functions(_TRAINER, "run_train_step train_step save_checkpoint"),
            *functions(_HF_DPO, "dpo_loss"),
        ),
    ),
    Patch(
        "probe",
        "speed",  # it records only: without it the export is not compared
        (
            *functions(_TRAINER, "run_train_step get_batch _get_data_collator"),
            *functions(_HF_DPO, "concatenated_forward"),
        ),
    ),
    Patch("ledger_transformers", "speed", functions(_HF_DPO, "dpo_loss get_batch_loss_metrics")),
    Patch(
        "nonfinite_megatron",
        "speed",  # it notes rows only: without it the error of grad_check names none
        (
            *functions(
                _TRAINER,
                "run_train_step train_step setup_training "
                "setup_model_training _prepare_data_iterator "
                "_prepare_dataloader _create_dataloader cyclic_iter",
            ),
            *functions("swift.dataset.packing:PackingDataset", "__getitem__"),
        ),
    ),
    Patch(
        "nonfinite_transformers",
        "required",  # upstream continues without an error
        (
            *functions(_HF, "get_batch_samples _get_grad_norm"),
            *functions("swift.trainers.mixin:DataLoaderMixin", "get_train_dataloader"),
            *functions("swift.trainers.mixin:SwiftMixin", "_fix_grad_norm_nan"),
            *functions("swift.dataset.packing:PackingDataset", "__getitem__"),
        ),
    ),
    Patch(
        "stop_megatron",
        "required",  # saves by time, saves on SIGTERM and the limits of hangs rely on it
        (
            *functions("swift.megatron.callbacks.default_flow", "DefaultFlowCallback"),
            *functions(_TRAINER, "run_train_step evaluate save_checkpoint"),
        ),
    ),
    Patch(
        "stop_transformers",
        "required",  # saves by time, saves on SIGTERM and the limits of hangs rely on it
        (
            *functions(_HF, "_save_checkpoint evaluation_loop"),
            *functions("swift.trainers.mixin:SwiftMixin", "_save_checkpoint"),
        ),
    ),
    Patch(
        "fused_norm",
        "speed",
        (
            *functions(_CLIP, "get_grad_norm_fp32 clip_grad_by_total_norm_fp32"),
            *functions(
                "megatron.core.utils",
                "local_multi_tensor_applier local_multi_tensor_l2_norm local_multi_tensor_scale",
            ),
            *functions(
                "transformer_engine.pytorch.optimizers.multi_tensor_apply", "MultiTensorApply"
            ),
        ),
    ),
    Patch(
        "grad_check",
        "speed",  # upstream's own check of each bucket stays
        (
            *functions(_UTILS, "wrap_model"),
            *functions(_BUCKETS, "check_grads start_grad_sync"),
            *functions(_CLIP, "get_grad_norm_fp32"),
            *functions(
                "megatron.core.optimizer.layer_wise_optimizer:LayerWiseDistributedOptimizer",
                "get_grad_norm",
            ),
            *functions(f"{_OPTIMIZER}:MegatronOptimizer", "clip_grad_norm"),
            *functions(f"{_OPTIMIZER}:ChainedOptimizer", "step"),
        ),
    ),
    Patch(
        "pack_lengths",
        "speed",
        (
            *functions("swift.megatron.utils.utils", "get_packed_seq_params"),
            *functions("swift.utils.transformers_utils", "get_packed_seq_params"),
            *functions("swift.megatron.trainers.utils", "prepare_batch get_batch_on_this_pp_rank"),
        ),
    ),
    Patch(
        "chunked_adam",
        "numbers",  # moments that a step updated without the getter would be overwritten by copies
        # __init__ sets fuse_unscale
        functions(_ADAM, "step __init__ get_unscaled_state _apply_scale initialize_state"),
    ),
    Patch(
        "reference",
        "numbers",
        (
            *functions(_DPO, "__init__ loss_func forward_step"),
            *functions("swift.megatron.trainers.dpo_trainer:DummyDPOTrainer", "__init__"),
            *functions(_RLHF, "prepare_model _load_checkpoint _get_data_collator get_logps"),
            *functions(
                _TRAINER,
                "prepare_model _load_checkpoint setup_training get_batch "
                "_get_data_collator _all_reduce_metric",
            ),
            *functions(_HF_DPO, "dpo_loss"),
        ),
        otherwise="set recipe.reference: online",
    ),
    Patch(
        "tokens",
        "speed",
        functions(_SFT, "_prepare_dataset _get_dataset _encode_dataset _post_process_datasets")
        + functions("swift.pipelines.train.kto", "_get_kl_dataset prepare_kto_dataset"),
    ),
    Patch(
        "packing",
        "speed",  # a step keeps upstream's packs: only which replica takes which differs
        (
            *functions(_TRAINER, "_prepare_dataloader _create_dataloader"),
            *functions(_ARGUMENTS, "init_iters"),
            *functions(_SAMPLERS, "MegatronPretrainingRandomSampler"),
            *functions("swift.dataset.packing:PackingDataset", "__init__ create_packed_idx"),
            *functions("swift.dataset.packing", "_spawn_workers"),
        ),
    ),
    Patch(
        "row_forms",
        "speed",  # without it ms-swift drops rows of these forms, and their number ends the run
        functions("swift.dataset.preprocessor.core:AutoPreprocessor", "__call__"),
    ),
    Patch(
        "evaluation",
        "numbers",  # of evaluations only: upstream's differ by their rows
        (
            *functions(
                _TRAINER,
                "setup_training evaluate _prepare_data_iterator _log_callback "
                "_aggregated_metrics _all_reduce_metric _create_dataloader "
                "_determine_best_metric",
            ),
            *functions(_DPO, "loss_func forward_step"),
            *functions("swift.megatron.trainers.utils", "TrainerState"),
            *functions(_ARGUMENTS, "init_iters"),
            *functions(_SAMPLERS, "MegatronPretrainingSampler"),
        ),
        otherwise="set recipe.args.split_dataset_ratio: 0",
    ),
    Patch(
        "pair_weights",
        "numbers",
        (
            *functions(_DPO, "loss_func forward_step"),
            *functions(_RLHF, "get_logps"),
            *functions(
                _TRAINER,
                "train_step _all_reduce_metric _aggregated_metrics "
                "_log_callback _prepare_dataloader _create_dataloader",
            ),
            *functions(_SAMPLERS, "MegatronPretrainingRandomSampler"),  # that of packing
            *functions("swift.megatron.callbacks.default_flow:DefaultFlowCallback", "on_step_end"),
            *functions(_HF_DPO, "dpo_loss"),
            *functions("megatron.core.pipeline_parallel.schedules", "forward_step_calc_loss"),
        ),
        otherwise=_BY_PACK,
    ),
    Patch(
        "pair_weights_transformers",
        "numbers",
        (
            *functions(
                _HF_DPO,
                "concatenated_forward get_batch_loss_metrics compute_loss get_batch_samples",
            ),
            *functions(_HF, "get_batch_samples training_step"),
        ),
        otherwise=_BY_PACK,
    ),
    Patch(
        "equal_packs",
        "required",  # upstream's dispatcher does not work with its packs
        (
            *functions(_TRAINER, "_get_data_collator"),
            *functions("swift.megatron.utils.utils", "get_padding_to"),
            *functions("mcore_bridge.config.model_config:ModelConfig", "__post_init__"),
        ),
        otherwise=_ALLTOALL,
    ),
    PROMPT_ONCE,
    Patch(
        "counted_head",
        "speed",  # without it tokens without a label have losses, too, which nothing reads
        (
            *functions(_TRAINER, "_prepare_batch"),
            *functions("swift.megatron.trainers.utils", "prepare_batch get_batch_on_this_pp_rank"),
            *functions("mcore_bridge.model.gpt_model:GPTModel", "_postprocess"),
        ),
    ),
    Patch(
        "filler_mask",
        "numbers",  # without it the balancing loss includes filler
        (
            *functions(_TRAINER, "_prepare_batch"),
            *functions("swift.megatron.trainers.utils", "prepare_batch"),
            *functions("swift.megatron.utils.megatron_lm_utils", "get_batch_on_this_cp_rank"),
            *functions("mcore_bridge.model.modules.transformer_layer:TransformerLayer", "forward"),
            *functions("mcore_bridge.model.modules.topk_router:TopKRouter", "_apply_expert_bias"),
            *functions(f"{_MOE}.moe_layer:MoELayer", "forward route"),
            *functions(f"{_MOE}.router:TopKRouter", "routing"),
            *functions(
                f"{_MOE}.moe_utils",
                "compute_routing_scores_for_aux_loss "
                "get_tokens_per_expert_and_token_count "
                "switch_load_balancing_loss_func",
            ),
        ),
    ),
    Patch(
        "rank_order",
        "numbers",
        functions(_GATHER, "token_dispatch combine_preprocess token_combine"),
        otherwise=_ALLTOALL,
    ),
    Patch(
        "early_counts",
        "speed",  # without it the same rows are found later
        (
            *functions(_GATHER, "token_dispatch dispatch_postprocess combine_preprocess"),
            *functions("megatron.core.transformer.moe.moe_utils", "permute"),
        ),
    ),
)
"""A feature without a patch replaces nothing of upstream (``tests/launchers/upstream``)."""


def of_feature(feature: str) -> Verdict | None:
    """Judge the patch of a feature in this environment; None if the feature has none."""
    patch = next((each for each in PATCHES if each.feature == feature), None)
    return None if patch is None else judge(patch, os.environ.get(ACCEPT, ""))
