"""Rules of held-out rows and of the best checkpoint that need no model.

Sources are abbreviated as in ``rules/parallelism.py``.
"""

from launchers.config.flag_value import NO
from launchers.config.recipe import EXPORT
from launchers.rules.engine import TRAINS_ADAPTER, Conflict, Rule, missing, on, one_of, over, under

SPLIT, _VAL, _CACHED = "split_dataset_ratio", "val_dataset", "cached_val_dataset"
_BEST = one_of(EXPORT, "best")

EVALUATION: tuple[Rule, ...] = (
    Conflict(
        id="split-streaming",
        when=(over(SPLIT, "0"), on("streaming")),
        says="has no effect with streaming, so that nothing would be evaluated; use val_dataset",
        source="SW data_args.py:__post_init__ sets it to 0 and logs that",
    ),
    Conflict(
        id="best-without-evaluation",
        flag=EXPORT,
        when=(_BEST, under(SPLIT, "0.000001"), missing(_VAL), missing(_CACHED)),
        says=f"best requires held-out rows; set {SPLIT}: 0.01, or use last",
        source="stages/export.py chooses by the evaluations in metrics.jsonl",
    ),
)
"""Rules of both backends."""
ON_MEGATRON: tuple[Rule, ...] = (
    Conflict(
        id="best-unmerged",
        flag=EXPORT,
        when=(_BEST, TRAINS_ADAPTER, missing("merge_lora")),
        says="best requires merge_lora with an adapter; set it to true (every checkpoint is "
        "merged) or false (the export is the adapter alone)",
        source="SW base.py:save_checkpoint; training/merge_last.py merges the last checkpoint only",
    ),
)
ON_TRANSFORMERS: tuple[Rule, ...] = (
    Conflict(
        id="best-eval-strategy",
        flag=EXPORT,
        when=(_BEST, one_of("eval_strategy", *NO, "No", "NO", "False")),
        says="best requires evaluations, and eval_strategy is {eval_strategy}; remove that flag",
        source="SW sft_args.py:_init_eval_strategy sets split_dataset_ratio to 0",
    ),
)
