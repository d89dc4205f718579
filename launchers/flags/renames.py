"""Flags of ms-swift 2.x and 3.x, and of other trainers, with today's name.

Sources: ms-swift pull requests 7945 and 8077 (the renames of 4.0), 9438, and its
``docs/source_en/Megatron-SWIFT``, for 3.0 ``docs/source_en/Instruction/ReleaseNote3.0.md``; flags
that never existed are those that recipes on the web use. For other trainers: the examples of
DeepSpeed-Chat, LLaMA-Factory (``examples/train_lora``), axolotl (``examples``), TRL, accelerate's
``launch``, OpenRLHF and Megatron-LM.
``custom_register_path`` is missing on purpose: ms-swift 4 still takes the old name.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """Replacement of a flag."""

    to: str = ""
    """Today's flag; empty if there is none."""
    note: str = ""
    """Further changes, or the new place of the setting."""

    @property
    def advice(self) -> str:
        """Return the advice of the message.

        >>> Renamed(to="save_steps", note="in steps").advice
        'use save_steps (in steps)'
        >>> Renamed(note="read from config.json").advice
        'remove it (read from config.json)'
        """
        note = f" ({self.note})" if self.note else ""
        return f"use {self.to}{note}" if self.to else f"remove it{note}"


_OUTPUT = "the launcher sets output_dir"
_CONFIG = "read from the model's config.json; override it with megatron_extra_kwargs"
_SWIFT_3 = {
    "train_type": Renamed(to="tuner_type", note="lora or full; a method such as dpo: rlhf_type"),
    "nnodes": Renamed(note="never a flag: set nodes"),
    "node_rank": Renamed(note="the launcher derives the rank"),
    "nproc_per_node": Renamed(note="set gpusPerNode"),
    "master_addr": Renamed(note="the launcher sets the rendezvous"),
    "master_port": Renamed(note="set rendezvous.masterPort"),
    "offload_folder": Renamed(note="never a flag"),
    "parallel": Renamed(note="set each size, such as tensor_model_parallel_size, in recipe.args"),
}
_MODEL = Renamed(note="set recipe.model")
_SAMPLE = Renamed(note="write NAME#ROWS for a part of a dataset")
_OLDER = {
    "sft_type": Renamed(to="tuner_type"),
    "finetune_type": Renamed(to="tuner_type"),
    "finetuning_type": Renamed(to="tuner_type"),
    "use_lora": Renamed(to="tuner_type", note="with the value lora"),
    "dtype": Renamed(to="torch_dtype"),
    "quantization_bit": Renamed(to="quant_bits", note="with quant_method"),
    "bnb_4bit_comp_dtype": Renamed(to="bnb_4bit_compute_dtype"),
    "lora_target_modules": Renamed(to="target_modules", note="all-linear for ALL"),
    "model_id_or_path": _MODEL,
    "model_name_or_path": _MODEL,
    "model_path": _MODEL,
    "template_type": Renamed(to="template"),
    "train_dataset": Renamed(note="set recipe.dataset"),
    "preprocess_num_proc": Renamed(to="dataset_num_proc"),
    "train_dataset_sample": _SAMPLE,
    "val_dataset_sample": _SAMPLE,
    "num_epochs": Renamed(to="num_train_epochs"),
    "max_seq_length": Renamed(to="max_length"),
}


def _each(names: str, new: Renamed) -> dict[str, Renamed]:
    return dict.fromkeys(names.split(), new)


_DATA = Renamed(note="set recipe.dataset")
_GONE = Renamed(note="nothing here needs it")
_OTHERS = {
    **_each("base_model actor_model_name_or_path base_model_path pretrain", _MODEL),
    **_each("data_path dataset_dir dataset_mixer dataset_name datasets prompt_data", _DATA),
    **_each("custom_train_dataset_path data_cache_path dataset_splits dataset_train_split", _DATA),
    **_each(
        "force_use_ref_model ref_checkpointer ref_model_path ref_pretrain reference_model",
        Renamed(note="the launcher sets ref_model"),
    ),
    **_each("ckpt_path save_path data_output_path", Renamed(note=_OUTPUT)),
    **_each("ckpt_dir load_checkpoint", Renamed(note="a restarted run resumes by itself")),
    **_each("cutoff_len max_len max_prompt_length max_seq_len", Renamed(to="max_length")),
    "sequence_len": Renamed(to="max_length"),
    **_each("neat_packing packing_samples sample_packing", Renamed(to="packing")),
    **_each("val_set_size val_size", Renamed(to="split_dataset_ratio")),
    **_each("dataset_test_split split", Renamed(to="split_dataset_ratio", note="a share: 0.01")),
    "max_samples": _SAMPLE,
    "max_ckpt_num": Renamed(to="save_total_limit"),
    **_each("shuffle shuffle_merged_datasets", Renamed(to="dataset_shuffle")),
    "dataset_streaming": Renamed(to="streaming"),
    "truncation_mode": Renamed(to="truncation_strategy", note="left, right or delete"),
    "l2": Renamed(to="weight_decay"),
    "bias": Renamed(to="lora_bias"),
    "plugins": Renamed(to="external_plugins", note="Python files"),
    "log_every_n_steps": Renamed(to="logging_steps"),
    "freeze_trainable_layers": Renamed(to="freeze_parameters_ratio", note="a share from below"),
    **_each("image_max_pixels video_max_pixels", Renamed(to="max_pixels")),
    "token": Renamed(note="set secrets.hf.existingSecret"),
    "export_dir": Renamed(note="every run exports to runs/RUN/export"),
    **_each("rl stage", Renamed(to="rlhf_type", note="for dpo; sft and pt: recipe.task")),
    **_each("pref_beta rl_beta rlhf_beta", Renamed(to="beta")),
    **_each("ipo pref_loss", Renamed(to="loss_type", note="a name, such as ipo")),
    "dpo_label_smoothing": Renamed(to="label_smoothing"),
    **_each("pref_ftx nll_loss_coef", Renamed(to="rpo_alpha")),
    **_each("lora_dim lora_r r", Renamed(to="lora_rank")),
    **_each("additional_target lora_modules_to_save", Renamed(to="modules_to_save")),
    **_each("random_state random_seed", Renamed(to="seed")),
    "full_finetuning": Renamed(to="tuner_type", note="with the value full"),
    "to_mcore": Renamed(note="set stages.convert.skip: false"),
    "test_convert_precision": Renamed(note="the export is compared: DPO_EXPORT_TEST"),
    "trust_remote_code": Renamed(note="ms-swift always runs the model's own code"),
    **_each("lora_target lora_target_linear", Renamed(to="target_modules", note="all-linear")),
    **_each("only_optimize_lora use_peft", Renamed(to="tuner_type", note="with the value lora")),
    "adapter": Renamed(to="tuner_type", note="lora; for qlora also quant_bits and quant_method"),
    **_each("adapter_name_or_path lora_model_dir lora_weight_path", Renamed(to="adapters")),
    "quantization_method": Renamed(to="quant_method"),
    "chat_template": Renamed(to="template", note="a name of ms-swift; by default the model's own"),
    "preprocessing_num_workers": Renamed(to="dataset_num_proc"),
    **_each("mixed_precision param_dtype pure_bf16", Renamed(to="torch_dtype", note="bfloat16")),
    "use_wandb": Renamed(note="set monitoring.trackers"),
    **_each("enable_tensorboard use_tensorboard", Renamed(to="report_to", note="tensorboard")),
    **_each(
        "train_on_inputs train_on_prompt mask_history",
        Renamed(to="loss_scale", note="all, or last_round"),
    ),
    **_each(
        "chosen_key prompt_key rejected_key", Renamed(to="columns", note="a map of your columns")
    ),
    "evals_per_epoch": Renamed(to="eval_steps"),
    "saves_per_epoch": Renamed(to="save_steps"),
    **_each("special_tokens tokens", Renamed(to="new_special_tokens")),
    "num_machines": Renamed(note="set nodes"),
    "num_processes": Renamed(note="set nodes and gpusPerNode"),
    "machine_rank": Renamed(note="the launcher derives the rank"),
    "main_process_ip": Renamed(note="the launcher sets the rendezvous"),
    "main_process_port": Renamed(note="set rendezvous.masterPort"),
    **_each(
        "log_dir max_restarts rdzv_backend rdzv_endpoint rdzv_id role standalone tee",
        Renamed(note="the launcher starts torchrun; restarts: restarts.max"),
    ),
    **_each(
        "actor_rollout_ref checkpointer checkpointing cluster config config_file policy",
        Renamed(note="its keys are values or flags here"),
    ),
    **_each("apply_chat_template dataset_prepared_path end_of_conversation_token", _GONE),
    **_each("no_remove_unused_columns overwrite_cache overwrite_output_dir", _GONE),
    **_each("pad_to_sequence_len plot_loss tensorboard_path compute_environment gpu_ids", _GONE),
    **_each("is_llama_derived_model main_training_function same_network tpu_env", _GONE),
    **_each("disable_fast_tokenizer export_size label_pad_token_id lora_task_type", _GONE),
    **_each("low_cpu_mem_usage skip_prepare_dataset tokenized_path", _GONE),
}
"""Flags of other trainers, for both backends."""
_FSDP = Renamed(to="fsdp", note="with the value fsdp2, which wraps each layer, or a JSON file")
_PRESET = Renamed(to="deepspeed", note="with a value such as zero2, or a JSON file")
_SHARDED = {
    **_each(
        "dp_shard_size fsdp2 fsdp_auto_wrap_policy fsdp_backward_prefetch fsdp_cpu_offload "
        "fsdp_cpu_ram_efficient_loading fsdp_min_num_params fsdp_offload_params "
        "fsdp_reshard_after_forward fsdp_sharding_strategy fsdp_state_dict_type "
        "fsdp_sync_module_states fsdp_transformer_layer_cls_to_wrap fsdp_use_orig_params "
        "fsdp_version use_fsdp use_fsdp2",
        _FSDP,
    ),
    **_each("deepspeed_config deepspeed_config_file use_deepspeed zero1 zero2 zero3", _PRESET),
    "zero_stage": _PRESET,
}
"""Flags of FSDP 1, accelerate and DeepSpeed's own launcher."""
_MEGATRON = {
    **dict.fromkeys(
        _SHARDED,
        Renamed(
            note="use_distributed_optimizer is on; FSDP and ZeRO: recipe.backend: transformers"
        ),
    ),
    "precompute_ref_log_probs": Renamed(note="set recipe.reference: precomputed"),
    "tp": Renamed(to="tensor_model_parallel_size"),
    "pp": Renamed(to="pipeline_model_parallel_size"),
    "cp": Renamed(to="context_parallel_size"),
    "ep": Renamed(to="expert_model_parallel_size"),
    "etp": Renamed(to="expert_tensor_parallel_size"),
    "vpp": Renamed(to="virtual_pipeline_model_parallel_size"),
    "optimizer_offload": Renamed(to="optimizer_cpu_offload"),
    "gradient_checkpointing": Renamed(to="recompute_granularity", note="with the value full"),
    "load": Renamed(note="the launcher sets model, or mcore_model after a conversion"),
    "load_safetensors": Renamed(note="weights in Hugging Face format load directly: recipe.model"),
    "ref_load": Renamed(note="the launcher sets ref_model to the original model"),
    "adapter_load": Renamed(to="mcore_adapter", note="or adapters for the Hugging Face format"),
    "ref_adapter_load": Renamed(
        note="merge it into recipe.model; with ms-swift 4.5.3 use mcore_ref_adapter"
    ),
    "max_epochs": Renamed(to="num_train_epochs"),
    "save": Renamed(note=_OUTPUT),
    "save_interval": Renamed(to="save_steps"),
    "eval_interval": Renamed(to="eval_steps"),
    "log_interval": Renamed(to="logging_steps"),
    "num_workers": Renamed(to="dataloader_num_workers"),
    "use_flash_attn": Renamed(to="attention_backend", note="with the value flash"),
    "quantization_bit": Renamed(note="the Megatron trainers load no quantized weights"),
    "no_initialization": Renamed(to="perform_initialization", note="inverted"),
    "extra_megatron_kwargs": Renamed(to="megatron_extra_kwargs", note="a map"),
    "distributed_backend": Renamed(to="ddp_backend"),
    "distributed_timeout_minutes": Renamed(to="ddp_timeout", note="in seconds"),
    "no_bias_dropout_fusion": Renamed(to="bias_dropout_fusion", note="inverted: false"),
    "no_rope_fusion": Renamed(to="apply_rope_fusion", note="inverted: false"),
    "no_masked_softmax_fusion": Renamed(to="masked_softmax_fusion", note="inverted: false"),
    "no_gradient_accumulation_fusion": Renamed(
        to="gradient_accumulation_fusion", note="inverted: false"
    ),
    "ckpt_format": Renamed(note="checkpoints are torch_dist or safetensors: save_safetensors"),
    "dataloader_type": Renamed(note="4.0 removed it"),
    "deterministic_mode": Renamed(note="4.0 removed it"),
    "num_layers": Renamed(note=_CONFIG),
    "num_experts": Renamed(note=_CONFIG),
    "seq_length": Renamed(to="max_length"),
    "tensor_parallel_size": Renamed(to="tensor_model_parallel_size"),
    "pipeline_parallel_size": Renamed(to="pipeline_model_parallel_size"),
    "expert_parallel_size": Renamed(to="expert_model_parallel_size"),
    "per_device_train_batch_size": Renamed(to="micro_batch_size", note="and global_batch_size"),
    "per_device_eval_batch_size": Renamed(to="micro_batch_size"),
    "batch_size": Renamed(to="micro_batch_size", note="and global_batch_size"),
    "eval_batch_size": Renamed(to="micro_batch_size"),
    "gradient_accumulation_steps": Renamed(to="global_batch_size", note="it counts all ranks"),
    "learning_rate": Renamed(to="lr"),
    "min_learning_rate": Renamed(to="min_lr"),
    **_each("lr_warmup_ratio warmup_ratio", Renamed(to="lr_warmup_fraction")),
    **_each("clip_grad_norm max_grad_norm max_norm", Renamed(to="clip_grad")),
    "aux_loss_coef": Renamed(to="moe_aux_loss_coeff"),
    "max_steps_per_epoch": Renamed(to="train_iters", note="with num_train_epochs: null"),
    **_each("warmup_steps num_warmup_steps", Renamed(to="lr_warmup_iters")),
    **_each("lr_scheduler lr_scheduler_type", Renamed(to="lr_decay_style")),
    **_each("flash_attn flash_attention", Renamed(to="attention_backend", note="flash")),
    "micro_train_batch_size": Renamed(to="micro_batch_size"),
    "ring_attn_size": Renamed(to="context_parallel_size"),
    **_each("adam_offload offload", Renamed(to="optimizer_cpu_offload")),
    "train_samples": Renamed(to="train_iters", note="with num_train_epochs: null"),
    **_each(
        "disable_bias_linear ffn_hidden_size group_query_attention hidden_size init_method_std "
        "kv_channels max_position_embeddings moe_ffn_hidden_size moe_router_topk normalization "
        "num_attention_heads num_query_groups position_embedding_type qk_layernorm rotary_base "
        "swiglu untie_embeddings_and_output_weights",
        Renamed(note=_CONFIG),
    ),
    **_each(
        "extra_vocab_size make_vocab_size_divisible_by merge_file patch_tokenizer_type "
        "tokenizer_model tokenizer_type vocab_file",
        Renamed(note="read from recipe.model's folder"),
    ),
    "exit_signal_handler": Renamed(note="SIGTERM always saves"),
    **_each("te_spec transformer_impl use_dist_ckpt use_mcore_models", _GONE),
    "recompute_activations": Renamed(to="recompute_granularity", note="with the value selective"),
}
_TRANSFORMERS = {
    **_SHARDED,
    # TRL's; ms-swift 4.4.1 reads it nowhere (issue 10196), 4.6.0 raises an error
    "precompute_ref_log_probs": Renamed(
        note="the reference runs in each step; recipe.backend: megatron has "
        "recipe.reference: precomputed"
    ),
    "use_liger": Renamed(to="use_liger_kernel"),
    "batch_size": Renamed(to="per_device_train_batch_size"),
    "eval_batch_size": Renamed(to="per_device_eval_batch_size"),
    "lora_lr_ratio": Renamed(to="lorap_lr_ratio"),
    "lr": Renamed(to="learning_rate"),
    "micro_batch_size": Renamed(to="per_device_train_batch_size"),
    "global_batch_size": Renamed(
        to="gradient_accumulation_steps", note="times per_device_train_batch_size times ranks"
    ),
    **_each(
        "flash_attention flash_attn use_flash_attention_2 use_flash_attn",
        Renamed(to="attn_impl", note="with the value flash_attention_2"),
    ),
    "attn_implementation": Renamed(to="attn_impl"),
    "enable_liger_kernel": Renamed(to="use_liger_kernel"),
    "num_warmup_steps": Renamed(to="warmup_steps"),
    "lr_scheduler": Renamed(to="lr_scheduler_type"),
    "micro_train_batch_size": Renamed(to="per_device_train_batch_size"),
    **_each(
        "context_parallel_size ring_attn_size sequence_parallel_degree",
        Renamed(to="sequence_parallel_size"),
    ),
    "tensor_parallel_size": Renamed(note="recipe.backend: megatron splits tensors"),
    "epochs": Renamed(to="num_train_epochs"),
    **_each(
        "enable_activation_checkpointing use_gradient_checkpointing",
        Renamed(to="gradient_checkpointing"),
    ),
    "disable_gradient_checkpointing": Renamed(to="gradient_checkpointing", note="inverted"),
    "compile": Renamed(to="torch_compile"),
    "double_quantization": Renamed(to="bnb_4bit_use_double_quant"),
    "use_unsloth": Renamed(to="tuner_backend", note="with the value unsloth"),
    "unfrozen_parameters": Renamed(to="trainable_parameters", note="prefixes of names"),
    "train_batch_size": Renamed(to="gradient_accumulation_steps", note="it counts one rank"),
    **_each("adam_offload offload", Renamed(to="deepspeed", note="zero2_offload, zero3_offload")),
    "dynamo_backend": Renamed(to="torch_compile"),
    **_each(
        "metric_logger wandb_entity wandb_group wandb_log_model wandb_name wandb_org wandb_project "
        "wandb_watch",
        Renamed(note="set monitoring.trackers"),
    ),
    **dict.fromkeys(
        ("load_in_4bit", "load_in_8bit", "qlora", "use_qlora"),
        Renamed(to="quant_bits", note="4 or 8, with quant_method: bnb and tuner_type: lora"),
    ),
    "attention_backend": Renamed(to="attn_impl"),
    **_each("lr_warmup_fraction lr_warmup_ratio", Renamed(to="warmup_ratio")),
    **_each("clip_grad clip_grad_norm max_norm", Renamed(to="max_grad_norm")),
    "aux_loss_coef": Renamed(to="router_aux_loss_coef"),
    "max_steps_per_epoch": Renamed(to="max_steps"),
    "early_stopping_patience": Renamed(to="early_stop_interval"),
    "gradient_checkpointing_use_reentrant": Renamed(
        to="gradient_checkpointing_kwargs", note="{use_reentrant: false}"
    ),
    "save_interval": Renamed(to="save_steps"),
    "log_interval": Renamed(to="logging_steps"),
    "merge_lora": Renamed(
        note="export/ holds the adapter; merge it later with swift export --merge_lora true"
    ),
}

RENAMED: dict[str, dict[str, Renamed]] = {
    "megatron": _OLDER | _SWIFT_3 | _OTHERS | _MEGATRON,
    "transformers": _OLDER | _SWIFT_3 | _OTHERS | _TRANSFORMERS,
}
"""Backend to old flag to advice."""

LAUNCHERS = frozenset((
    "model", "mcore_model", "ref_model", "mcore_ref_model", "dataset", "output_dir", "add_version",
    "resume_from_checkpoint", "load_args", "ignore_args_error", "use_hf",
))  # fmt: skip
"""Flags of both backends that the launcher alone sets."""
OWNED: dict[str, frozenset[str]] = {"megatron": LAUNCHERS | {"finetune"}, "transformers": LAUNCHERS}
"""Backend to the flags that the launcher alone sets, since they say whether a run resumes."""

_SECRET = re.compile(r"(?:\w+_)?(?:token|secret|password|api_key|access_key|webhook_url)")


def secret_advice(flag: str) -> str:
    """Return where a flag's value belongs if it is a secret, otherwise an empty text.

    Recipes travel in a ConfigMap, command lines in the process table: neither holds secrets.

    >>> secret_advice("hub_token")
    'set secrets.hf.existingSecret or secrets.modelscope.existingSecret'
    >>> secret_advice("max_new_tokens")
    ''
    """
    if not _SECRET.fullmatch(flag):
        return ""
    if flag.startswith("hub_"):
        return "set secrets.hf.existingSecret or secrets.modelscope.existingSecret"
    if flag == "swanlab_token":
        return "set extraEnv.SWANLAB_API_KEY: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}}"
    return "let a plugin read it from extraEnv.NAME: {valueFrom: {secretKeyRef: ...}}"
