"""Rules of packed pairs: ``recipe.pairWeights``, ``recipe.promptOnce`` and its default ``auto``.

Sources are abbreviated as in ``rules/parallelism.py``; ``training/packs/prompt_once.py`` judges the
built model too.
"""

from launchers.config.gpu_models import GPU_MODELS
from launchers.config.recipe import PAIR_WEIGHTS, PROMPT_ONCE, REFERENCE
from launchers.rules.engine import (
    GPU_MODEL,
    NOT_RLHF,
    RLHF,
    TRAINS_ADAPTER,
    Rule,
    When,
    conflicts,
    given,
    has,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
)

_equal_conflict = conflicts(
    PAIR_WEIGHTS,
    "equal %s; use pack",
    one_of(PAIR_WEIGHTS, "equal"),
    RLHF,
    one_of("rlhf_type", "dpo"),
    on("packing"),
)
WEIGHTS: tuple[Rule, ...] = tuple(
    _equal_conflict(
        "pair-weights-order",
        f"requires that the packs of a step are known before it, which {flag} prevents",
        "training/packs/packing.py deals packs that ms-swift shuffles as a whole",
        condition,
    )
    for flag, condition in (
        ("data_sharding: true", on("data_sharding")),
        ("train_dataloader_shuffle: false", off("train_dataloader_shuffle")),
    )
)
"""Rules of the Megatron backend."""
WEIGHTS_ELSEWHERE: tuple[Rule, ...] = (
    *(
        _equal_conflict(
            "pair-weights-loss",
            f"cannot be combined with loss_type {loss}, which compares the pairs of a pack with "
            "each other",
            "SW rlhf_trainers/dpo_trainer.py:dpo_loss sorts them, or takes their running mean",
            has("loss_type", loss),
        )
        for loss in ("aot", "aot_unpaired", "bco_pair")
    ),
    _equal_conflict(
        "pair-weights-ld-alpha",
        "cannot be combined with ld_alpha and rpo_alpha: the log-probability of an answer then "
        "does not give its likelihood",
        "SW rlhf_trainers/dpo_trainer.py:concatenated_forward scales the end of the longer answer",
        given("ld_alpha"),
        given("rpo_alpha"),
    ),
    _equal_conflict(
        "pair-weights-sequence-parallel",
        "is untested with sequence_parallel_size {sequence_parallel_size}",
        "SW rlhf_mixin.py:get_per_token_logps gathers the parts of a sequence",
        over("sequence_parallel_size", "1"),
    ),
)
"""Rules of the transformers backend."""

_once_conflict = conflicts(PROMPT_ONCE, "true %s; use false", one_of(PROMPT_ONCE, "true"))
ONCE: tuple[Rule, ...] = (
    _once_conflict(
        "prompt-once-task",
        "requires task rlhf, not {recipe.task}",
        "only pairs have a prompt in common",
        NOT_RLHF,
    ),
    _once_conflict(
        "prompt-once-loss",
        "is untested with rlhf_type {rlhf_type}; it requires dpo",
        "SW dpo_trainer.py is the trainer whose steps were compared",
        RLHF,
        none_of("rlhf_type", "dpo"),
    ),
    _once_conflict(
        "prompt-once-packing",
        "requires packing: true",
        "the texts of a pair are in one sequence only if rows are packed",
        off("packing"),
    ),
    _once_conflict(
        "prompt-once-context",
        "cannot be combined with context_parallel_size {context_parallel_size}",
        "TE utils.py:get_attention_backend has no bottom-right mask for a divided sequence",
        over("context_parallel_size", "1"),
    ),
    *(
        _once_conflict(
            "prompt-once-rows",
            f"requires rows that are tokenised and cached before training, which {flag} prevents",
            "training/tokens/cache.py keeps no tokens then; packs are made by the lengths of rows",
            condition,
        )
        for flag, condition in (
            ("lazy_tokenize: true", on("lazy_tokenize")),
            ("cached_dataset", given("cached_dataset")),
            ("cached_val_dataset", given("cached_val_dataset")),
            ("truncation_strategy: split", one_of("truncation_strategy", "split")),
            ("load_from_cache_file: false", one_of("load_from_cache_file", "false")),
        )
    ),
    _once_conflict(
        "prompt-once-predictions",
        "cannot be combined with mtp_num_layers {mtp_num_layers}",
        "MB patcher.py:_patch_mtp takes the positions of whole texts",
        given("mtp_num_layers"),
    ),
)
"""Rules of the Megatron backend."""
ONCE_ELSEWHERE: tuple[Rule, ...] = (
    _once_conflict(
        "prompt-once-backend",
        "requires backend megatron",
        "transformers' attention has as many keys as queries in a pack",
    ),
)
"""Rules of the transformers backend."""
UNMEASURED: tuple[tuple[When, str], ...] = (
    (TRAINS_ADAPTER, "adapters (their speed alone)"),
    (missing(GPU_MODEL), "an unknown GPU (set gpuModel)"),
    (none_of(GPU_MODEL, *(n for n, gpu in GPU_MODELS.items() if gpu.arch == "sm90")), "{gpuModel}"),
    *(
        (over(f"{name}_size", "1"), f"{name}_size {{{name}_size}}")
        for name in ("tensor_model_parallel", "pipeline_model_parallel", "micro_batch")
    ),
    *((given(name), name) for name in ("fp8_format", "fp4_format", "rope_scaling", "val_dataset")),
    *(
        (on(name), name)
        for name in ("streaming", "overlap_moe_expert_parallel_comm", "predict_with_generate")
    ),
    *(
        (one_of(name, value), f"{name}: {value}")
        for name, value in (
            (REFERENCE, "online"),
            ("recompute_granularity", "selective"),
            ("remove_unused_columns", "false"),
        )
    ),
    (none_of("attention_backend", "auto", "fused"), "attention_backend {attention_backend}"),
)
"""Where ``auto`` is off: prompts once have had no GPU run with it, or it may prevent them in
training. The runs: tests/bench/notes/packs.md and learning.md."""
MEASURED: dict[str, tuple[str, ...]] = {
    "ms-swift": ("4.4.1", "4.5.3"),
    "transformer-engine": ("2.16.1",),
    **dict.fromkeys(("flash-attn", "flash-attn-3", "flash-attn-4"), ("",)),
}
"""The releases of these runs; empty: not installed."""
ARCHITECTURES, OVERRIDES = ("Qwen3MoeForCausalLM",), ("moe_router_fusion",)
"""Their models, and what they had in ``megatron_extra_kwargs``."""
