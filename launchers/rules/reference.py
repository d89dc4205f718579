"""Rules of ``recipe.reference: precomputed``: where it can't be taken once, or was not tried.

``training/reference/policy.py:refusals`` says the same of a run that no launcher has started.
"""

from __future__ import annotations

from launchers.config.recipe import ADAPTERS
from launchers.rules.condition import When, given, none_of, on, one_of, over
from launchers.rules.engine import Conflict, Rule
from launchers.rules.facts import REFERENCE, TASK

_ONCE = one_of(REFERENCE, "precomputed")


def _no(id: str, says: str, source: str, *when: When) -> Conflict:
    spelt = f"precomputed {says}; write online"
    return Conflict(id=id, flag=REFERENCE, when=(_ONCE, *when), says=spelt, source=source)


REFERENCES: tuple[Rule, ...] = (
    _no(
        "precomputed-task",
        "is for DPO, and recipe.task is {recipe.task}",
        "training/reference/trainer.py replaces SW trainers/dpo_trainer.py only",
        none_of(TASK, "rlhf"),
    ),
    _no(
        "precomputed-rlhf-type",
        "is for DPO, and rlhf_type is {rlhf_type}",
        "training/reference/trainer.py replaces SW trainers/dpo_trainer.py only",
        one_of(TASK, "rlhf"),
        none_of("rlhf_type", "dpo"),
    ),
    _no(
        "precomputed-tuner",
        "needs tuner_type full, and it is {tuner_type}: the reference of an adapter is the model "
        "without it, which costs no memory",
        "SW rlhf_mixin.py:null_ref_context disables the adapter",
        none_of("tuner_type", "full"),
    ),
    *(
        _no(
            "precomputed-adapter",
            f"does not go with {flag}: the reference of an adapter is the model without it",
            "SW rlhf_mixin.py:_load_checkpoint loads it into the policy",
            given(flag),
        )
        for flag in ADAPTERS
    ),
    _no(
        "precomputed-streaming",
        "does not go with streaming: not all pairs are known before the first step",
        "SW dataset/packing.py:IterablePackingDataset has no length",
        on("streaming"),
    ),
    *(
        _no(
            "precomputed-parallelism",
            f"was not tried with {flag} {{{flag}}}",
            "no GPU run has shown it",
            over(flag, "1"),
        )
        for flag in ("context_parallel_size", "virtual_pipeline_model_parallel_size")
    ),
)
"""Of the Megatron backend."""
REFERENCES_ELSEWHERE: tuple[Rule, ...] = (
    Conflict(
        id="precomputed-transformers",
        flag=REFERENCE,
        when=(_ONCE,),
        says="precomputed is for recipe.backend megatron; write online, and "
        "recipe.args.precompute_ref_log_probs: true for the same here",
        source="SW rlhf_trainers/dpo_trainer.py, TRL dpo_config.py: precompute_ref_log_probs",
    ),
)
"""Of the transformers backend."""
