"""Rules of the precomputed reference (``recipe.reference``).

Sources are abbreviated as in ``rules/parallelism.py``. ``training/reference/policy.py`` refuses the
same in a run without a launcher.
"""

from __future__ import annotations

from launchers.config.recipe import ADAPTERS, REFERENCE
from launchers.rules.engine import (
    NOT_RLHF,
    RLHF,
    Conflict,
    Rule,
    When,
    given,
    none_of,
    on,
    one_of,
    over,
)

_ONCE = one_of(REFERENCE, "precomputed")


def _precomputed_conflict(id: str, says: str, source: str, *when: When) -> Conflict:
    return Conflict(
        id=id,
        flag=REFERENCE,
        when=(_ONCE, *when),
        says=f"precomputed {says}; use online",
        source=source,
    )


REFERENCES: tuple[Rule, ...] = (
    _precomputed_conflict(
        "precomputed-task",
        "is supported for DPO only, and recipe.task is {recipe.task}",
        "training/reference/trainer.py replaces SW trainers/dpo_trainer.py only",
        NOT_RLHF,
    ),
    _precomputed_conflict(
        "precomputed-rlhf-type",
        "is supported for DPO only, and rlhf_type is {rlhf_type}",
        "training/reference/trainer.py replaces SW trainers/dpo_trainer.py only",
        RLHF,
        none_of("rlhf_type", "dpo"),
    ),
    _precomputed_conflict(
        "precomputed-tuner",
        "requires tuner_type full, not {tuner_type}: the reference of an adapter is the model "
        "without it, at no extra memory",
        "SW rlhf_mixin.py:null_ref_context disables the adapter",
        none_of("tuner_type", "full"),
    ),
    *(
        _precomputed_conflict(
            "precomputed-adapter",
            f"cannot be combined with {flag}: the reference of an adapter is the model without it",
            "SW rlhf_mixin.py:_load_checkpoint loads it into the policy",
            given(flag),
        )
        for flag in ADAPTERS
    ),
    _precomputed_conflict(
        "precomputed-streaming",
        "cannot be combined with streaming, where not all pairs are known before the first step",
        "SW dataset/packing.py:IterablePackingDataset has no length",
        on("streaming"),
    ),
    *(
        _precomputed_conflict(
            "precomputed-parallelism",
            f"is untested with {flag} {{{flag}}}",
            "no GPU run has shown it",
            over(flag, "1"),
        )
        for flag in ("context_parallel_size", "virtual_pipeline_model_parallel_size")
    ),
)
"""Rules of the Megatron backend."""
REFERENCES_ELSEWHERE: tuple[Rule, ...] = (
    Conflict(
        id="precomputed-transformers",
        flag=REFERENCE,
        when=(_ONCE,),
        says="precomputed requires recipe.backend megatron; use online",
        source="training/reference/trainer.py replaces SW megatron/trainers/dpo_trainer.py only",
    ),
)
"""Rules of the transformers backend."""
