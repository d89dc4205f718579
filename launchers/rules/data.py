"""Rules of data, loss and checkpoints that need no model.

Sources are abbreviated as in ``rules/parallelism.py``; TRL is trl 0.29.1, as ms-swift 4.4.1 uses
it.
"""

from launchers.config.flag_value import NO
from launchers.config.recipe import PAIRED
from launchers.rules.adapter import LORA
from launchers.rules.engine import (
    RLHF,
    Conflict,
    Local,
    Names,
    Range,
    Rule,
    Words,
    given,
    has,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
    under,
)
from launchers.rules.optimizer import (
    EPOCHS,
    ITERS,
    SPLIT_RATIO,
    betas,
    count,
    epsilon,
    frozen,
    not_negative,
    warm_up,
)
from launchers.upstream.templates import UNPACKED

_FLASH = ("flash_attn", "flash_attention_2", "flash_attention_3", "flash_attention_4")

_REGISTRARS = ("external_plugins", "custom_register_path", "custom_dataset_info")
"""Flags by which a user's own names of datasets come to be known."""

ELSEWHERE: tuple[Rule, ...] = (
    *(
        Names(id="flag-list-comma", flag=flag, source=f"{reader} finds no such name: ValueError")
        for flag, reader in (
            ("target_modules", "peft tuners_utils.py:inject_adapter"),
            ("modules_to_save", "peft"),
            ("report_to", "transformers integration_utils.py:get_reporting_integration_callbacks"),
        )
    ),
    Local(
        id="val-dataset-remote",
        flag="val_dataset",
        when=tuple(missing(flag) for flag in _REGISTRARS),
        instead=", or split_dataset_ratio to hold out rows of recipe.dataset",
        evaluates=True,
        source="SW dataset/loader.py asks a hub for what is neither file nor registered name; "
        "measured without a way out: 35 s, exit 1, and so a restart of all pods",
    ),
    *(
        Local(
            id="cached-dataset-remote",
            flag=flag,
            instead="",
            source="SW pipelines/utils.py:get_cached_dataset opens it as a folder",
        )
        for flag in ("cached_dataset", "cached_val_dataset")
    ),
)
_UNPACKED = one_of("template", *UNPACKED)
PACKED: tuple[Rule, ...] = (
    Conflict(
        id="template-packing",
        when=(on("packing"), _UNPACKED),
        says="template {template} does not support it; remove packing",
        source="SW pipelines/train/sft.py: ValueError where template.support_padding_free is false",
    ),
    Conflict(
        id="template-padding-free",
        when=(on("padding_free"), off("packing"), _UNPACKED),
        says="on, but template {template} does not support it; set padding_free: false",
        source="SW pipelines/train/sft.py: ValueError where template.support_padding_free is false",
    ),
    Conflict(
        id="packing-streaming",
        when=(on("packing"), RLHF, one_of("rlhf_type", *PAIRED, "kto"), on("streaming")),
        says="cannot be combined with streaming, of which ms-swift packs no pairs; remove one",
        source="SW dataset/packing.py:IterablePackingDataset: KeyError, as pairs have no input_ids",
    ),
)
"""Packing of some templates, and of pairs in a stream; both backends."""
DATA: tuple[Rule, ...] = (
    *PACKED,
    Conflict(
        id="packing-unfused",
        when=(on("packing"), one_of("attention_backend", "unfused")),
        says="requires attention_backend flash or fused, not unfused: "
        "each pack would be split into padded rows; use flash",
        source="SW model/utils.py:_check_padding_free turns padding_free off, and "
        "template/base.py:data_collator then pads the rows of a pack",
    ),
    Conflict(
        id="group-by-length-packing",
        when=(on("group_by_length"), on("packing")),
        says="cannot be combined with packing, which fills rows itself; remove one",
        source="SW megatron_base_args.py: packing sets padding_free, then ValueError",
    ),
    Conflict(
        id="group-by-length-padding-free",
        when=(on("group_by_length"), on("padding_free"), off("packing")),
        says="cannot be combined with padding_free, which is on by default; "
        "set padding_free: false",
        source="SW megatron_args.py:__post_init__: ValueError",
    ),
    Conflict(
        id="group-by-length-shuffle",
        when=(on("group_by_length"), off("train_dataloader_shuffle")),
        says="requires train_dataloader_shuffle; set it to true or remove group_by_length",
        source="SW batch_sampler.py: ValueError",
    ),
    *(
        Conflict(
            id="lazy-tokenize",
            when=(on("lazy_tokenize"), on(other)),
            says=f"cannot be combined with {other}; remove one",
            source="SW base_args.py:_init_lazy_tokenize: ValueError",
        )
        for other in ("packing", "streaming")
    ),
    Conflict(
        id="cached-dataset-streaming",
        when=(given("cached_dataset"), on("streaming")),
        says="cannot be combined with streaming; remove one",
        source="SW pipelines/train/sft.py: AssertionError",
    ),
    Conflict(
        id="streaming-train-iters",
        when=(missing(ITERS), on("streaming")),
        says="missing; with streaming the number of rows is unknown, so it is required",
        source="SW megatron_args.py:init_iters: ValueError",
    ),
    Conflict(
        id="epochs-missing",
        when=(missing(EPOCHS), missing(ITERS)),
        says=f"missing, and so is {ITERS}; set the number of epochs",
        source="SW megatron_lm_utils.py:get_optimizer_param_scheduler: TypeError, after the "
        "model was loaded",
    ),
    Conflict(
        id="train-iters-ignored",
        when=(given(ITERS), given(EPOCHS), off("streaming")),
        says=f"{{{ITERS}}} is ignored, since {EPOCHS} {{{EPOCHS}}} is given; set {EPOCHS}: null, "
        "or remove it",
        source="SW megatron_args.py:init_iters computes it from the epochs",
    ),
    Conflict(
        id="streaming-save-epoch",
        when=(one_of("save_strategy", "epoch"), on("streaming")),
        says="epoch cannot be combined with streaming; use steps",
        source="SW megatron_args.py:init_iters: ValueError",
    ),
)
LOSS: tuple[Rule, ...] = (
    Conflict(
        id="per-token-loss",
        when=(RLHF, on("calculate_per_token_loss")),
        says="multiplies the gradients of a preference loss by the data-parallel ranks, and the "
        "balancing loss by the microbatches; remove it",
        source="MC schedules.py:forward_step_calc_loss and distributed_data_parallel.py; SW "
        "dpo_trainer.py returns no number of tokens to divide by",
    ),
    Conflict(
        id="dpo-loss",
        when=(none_of("loss_type", "sigmoid"), RLHF, one_of("rlhf_type", "dpo")),
        says="{loss_type} would be ignored: Megatron-SWIFT's DPO always computes sigmoid; "
        "use sigmoid, or recipe.backend: transformers (other losses, ipo from ms-swift 4.5.3 on)",
        source="SW megatron/trainers/dpo_trainer.py calls dpo_loss without loss_type, and "
        "rlhf_trainers/dpo_trainer.py:dpo_loss has sigmoid as its default",
    ),
    Conflict(
        id="kto-loss",
        when=(none_of("loss_type", "kto", "apo_zero_unpaired"), RLHF, one_of("rlhf_type", "kto")),
        says="{loss_type} is not a KTO loss; use kto or apo_zero_unpaired",
        source="TRL kto_trainer.py:kto_loss knows these two",
    ),
    Words(
        id="divergence-unknown",
        flag="f_divergence_type",
        known=("reverse_kl", "js_divergence", "alpha_divergence"),
        when=(RLHF, one_of("rlhf_type", "dpo")),
        source="SW rlhf_trainers/dpo_trainer.py:dpo_loss: another name means reverse_kl, silently",
    ),
)
SAVING: tuple[Rule, ...] = (
    Conflict(
        id="async-save",
        when=(on("async_save"),),
        says="returns before the checkpoint is complete, so a partial one would count as complete; "
        "remove it",
        source="flags/command_line.py refuses it too; SW base.py:save_checkpoint writes the "
        "tracker at once",
    ),
    Conflict(
        id="save-safetensors-off",
        when=(given("save_safetensors"), off("save_safetensors")),
        says="the export consists of safetensors; remove it",
        source="inputs/preconditions.py refuses it too; SW base.py:save_checkpoint writes none",
    ),
    Conflict(
        id="bridge-backend",
        when=(one_of("bridge_backend", "megatron-bridge"),),
        says="{bridge_backend} was never run with the launcher, whose patches of loading weights "
        "are of mcore-bridge; remove it",
        source="upstream/patches.yaml: one_read, device_read; SW megatron_args.py: no model meta",
        since="4.5.0",
    ),
)
TRANSFORMERS: tuple[Rule, ...] = (
    *PACKED,
    count("per_device_train_batch_size", "transformers training_args.py: rows of a step"),
    count("gradient_accumulation_steps", "transformers trainer.py divides by it"),
    *(
        Conflict(
            id="kto-accumulation",
            when=(missing("gradient_accumulation_steps"), RLHF, one_of("rlhf_type", "kto"), loss),
            says="missing, and KTO multiplies by it before ms-swift chooses one: TypeError; use "
            "16 / (per_device_train_batch_size x ranks), ms-swift's own, or another number",
            source="SW pipelines/train/kto.py:prepare_kto_dataset; trainers/arguments.py chooses "
            "it in the arguments of the trainer, which are made later",
        )
        for loss in (missing("loss_type"), one_of("loss_type", "kto"))
    ),
    *LORA,
    frozen((one_of("tuner_type", "full"),)),
    Range(
        id="learning-rate",
        flag="learning_rate",
        noun="rate",
        high="1",
        below=True,
        source="transformers training_args.py has no check",
    ),
    warm_up(
        "warmup_ratio",
        "transformers training_args.py:get_warmup_steps: from 1 on a number of steps",
    ),
    *(betas(name) for name in ("adam_beta1", "adam_beta2")),
    epsilon("adam_epsilon"),
    *(not_negative(name) for name in ("max_grad_norm", "weight_decay")),
    SPLIT_RATIO,
    Conflict(
        id="epochs-positive",
        when=(under(EPOCHS, "0.000001"), under("max_steps", "1")),
        says="{num_train_epochs} trains no step; use a number above 0",
        source="transformers trainer.py:set_initial_training_values: max_steps 0, no error",
    ),
    Conflict(
        id="label-smoothing-factor",
        when=(RLHF, over("label_smoothing_factor", "0")),
        says="has no effect on a preference loss; use label_smoothing",
        source="transformers trainer.py:compute_loss reads it, TRL's trainers have their own",
    ),
    *(
        Conflict(id=id, when=(on(flag),), says=f"{says}; remove it", source=source)
        for id, flag, says, source in (
            (
                "ignore-data-skip",
                "ignore_data_skip",
                "a resumed run would begin its epoch anew and train on the same rows twice",
                "transformers trainer.py:_inner_training_loop",
            ),
            (
                "resume-only-model",
                "resume_only_model",
                "a resumed run would begin with an empty optimizer and the first learning rate",
                "SW trainers/mixin.py and arguments/sft_args.py",
            ),
        )
    ),
    Conflict(
        id="streaming-max-steps",
        when=(under("max_steps", "1"), on("streaming")),
        says="missing, and with streaming the number of rows is unknown; set the number of steps",
        source="transformers trainer.py:set_initial_training_values: ValueError",
    ),
    Words(
        id="attention-unknown",
        flag="attn_impl",
        known=("sdpa", "eager", "flex_attention", *_FLASH),
        otherwise=", or a kernel of the hub such as kernels-community/flash-attn2",
        source="SW model/utils.py:update_attn_impl sets it in the model's configuration; "
        "transformers modeling_utils.py:get_correct_attn_implementation: ValueError",
    ),
    *(
        Conflict(
            id="flash-attention-missing",
            when=(on(flag), condition),
            says=f"requires flash attention, {given_is}; set attn_impl: flash_attention_2",
            source="SW sft_args.py:_check_padding_free: ValueError",
        )
        for flag in ("packing", "padding_free")
        for condition, given_is in (
            (none_of("attn_impl", *_FLASH), "and attn_impl is {attn_impl}"),
            (missing("attn_impl"), "and attn_impl is missing"),
        )
    ),
    *(rule for rule in DATA if "lazy_tokenize" in rule.flags()),
    *(
        Conflict(
            id="ipo-packing",
            when=(RLHF, has("loss_type", "ipo"), on(flag)),
            says=f"ipo cannot be combined with {flag}: ms-swift 4.4.1 would divide each answer by "
            "the tokens of its whole row; use sigmoid",
            source="SW rlhf_trainers/dpo_trainer.py:concatenated_forward: size_completion is the "
            "sum over the row, before it is split at cu_seqlens; ms-swift issue 9925. 4.5.3 "
            "divides by the tokens of each answer",
            fixed_in="4.5.3",
        )
        for flag in ("packing", "padding_free")
    ),
    Conflict(
        id="ipo-padded",
        when=(
            has("loss_type", "ipo"),
            RLHF,
            one_of("rlhf_type", "dpo"),
            off("packing"),
            off("padding_free"),
        ),
        says="ipo ends in its first step with ms-swift 4.4.1, which divides tokens by lengths of "
        "another shape; use sigmoid",
        source="SW rlhf_trainers/dpo_trainer.py:concatenated_forward: per_token_logps (texts, "
        "tokens) / size_completion (texts,): RuntimeError, measured on CPU; the wrong texts' "
        "lengths where a batch has as many tokens as texts. 4.5.3 divides each text's sum",
        fixed_in="4.5.3",
    ),
    Conflict(
        id="persistent-workers",
        when=(one_of("dataloader_num_workers", "0"), on("dataloader_persistent_workers")),
        says="ms-swift 4.5.3 ends at its first data loader, which has no workers to keep; set "
        "dataloader_persistent_workers: false, or one worker or more",
        source="SW trainers/arguments.py: dataloader_persistent_workers is true by default since "
        "4.5.3, and torch's DataLoader raises ValueError; 4.6.0 sets it to false",
        since="4.5.3",
        fixed_in="4.6.0",
    ),
    Conflict(
        id="save-strategy-no",
        when=(one_of("save_strategy", *NO, "No", "NO", "False"),),
        says="no checkpoint would be saved; use steps or epoch",
        source="inputs/preconditions.py refuses it too; transformers trainer_callback.py does not "
        "save",
    ),
    *(
        Conflict(
            id="eval-strategy-boolean",
            when=(one_of("eval_strategy", "false", "False"), evaluated),
            says='YAML makes {eval_strategy} of an unquoted no; use "no" in quotes',
            source="transformers trainer_utils.py:IntervalStrategy: ValueError; without rows to "
            "evaluate SW sft_args.py sets no itself",
        )
        for evaluated in (
            over("split_dataset_ratio", "0"),
            *map(given, ("val_dataset", "cached_val_dataset")),
        )
    ),
    Conflict(
        id="flash-checkpoint",
        when=(on("use_flash_ckpt"),),
        says="returns before the checkpoint is complete, so a partial one would count as complete; "
        "remove it",
        source="SW trainers/mixin.py:_save_flash_checkpoint leaves the files to dlrover's agent; "
        "on_save, and so the seal, comes before they are written",
    ),
    Conflict(
        id="jit-checkpoint",
        when=(on("enable_jit_checkpoint"),),
        says="a checkpoint saved on SIGTERM is never sealed, so no run would resume from it; "
        "remove it: the launcher saves on SIGTERM",
        source="transformers trainer_jit_checkpoint.py:execute_jit_checkpoint saves without "
        "on_save; measured with 5.12.1",
    ),
)
