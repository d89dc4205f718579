"""Rules of the reference: an adapter that is continued, and ``recipe.reference``.

Sources are abbreviated as in ``rules/parallelism.py``. ``reference/policy.py`` refuses the
same in a run without a launcher.
"""

from launchers.config.recipe import ADAPTER_REFERENCE, ADAPTERS, REFERENCE, TUNER
from launchers.rules.engine import (
    NOT_RLHF,
    RLHF,
    Conflict,
    Rule,
    When,
    conflicts,
    given,
    missing,
    none_of,
    off,
    on,
    one_of,
    over,
)

_precomputed_conflict = conflicts(
    REFERENCE, "precomputed %s; use online", one_of(REFERENCE, "precomputed")
)
_MERGE = "merge it into recipe.model (swift export --merge_lora true) and remove it"
_BOTH = "set {0} to the same adapter, or " + _MERGE


_WITH_ADAPTER = one_of("rlhf_type", "dpo", "kto", "grpo")
_ON_MEGATRON = (_WITH_ADAPTER, missing("mcore_ref_adapter"), off("reference_free"))


def _base_reference(
    flag: str, remedy: str, *when: When, since: str = "", fixed_in: str = ""
) -> Conflict:
    """Return the rule of a flag whose adapter would be continued against the base model."""
    return Conflict(
        id="adapter-base-reference",
        when=(
            given(flag),
            RLHF,
            *when,
            missing("ref_adapters"),
            one_of(ADAPTER_REFERENCE, "adapter"),
        ),
        says="{rlhf_type} would continue this adapter against the model without it, not against "
        f"the adapter as it begins; {remedy}; if the model without it is meant, set "
        f"{ADAPTER_REFERENCE}: base",
        source="SW rlhf_mixin.py:null_ref_context disables every adapter where ref_adapters and "
        "mcore_ref_adapter are missing; ref_adapters of SW pipelines/train/rlhf.py: dpo, kto, grpo",
        since=since,
        fixed_in=fixed_in,
    )


REFERENCES: tuple[Rule, ...] = (
    *(
        rule
        for flag, reference in (
            ("adapters", "ref_adapters"),
            ("mcore_adapter", "mcore_ref_adapter"),
        )
        for rule in (
            _base_reference(flag, _MERGE, *_ON_MEGATRON, fixed_in="4.5.3"),
            _base_reference(flag, _BOTH.format(reference), *_ON_MEGATRON, since="4.5.3"),
        )
    ),
    _precomputed_conflict(
        "precomputed-task",
        "is supported for DPO only, and recipe.task is {recipe.task}",
        "reference/trainer.py replaces SW trainers/dpo_trainer.py only",
        NOT_RLHF,
    ),
    _precomputed_conflict(
        "precomputed-rlhf-type",
        "is supported for DPO only, and rlhf_type is {rlhf_type}",
        "reference/trainer.py replaces SW trainers/dpo_trainer.py only",
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
    _base_reference("adapters", _BOTH.format("ref_adapters"), _WITH_ADAPTER),
    _base_reference("adapters", _MERGE, one_of("rlhf_type", "ppo")),
    Conflict(
        id="adapter-full",
        when=(given("adapters"), one_of(TUNER, "full")),
        says=f"is not trained with tuner_type full; {_MERGE}, or set tuner_type: lora",
        source="SW pipelines/train/tuner.py:prepare_model reads adapters only for an adapter, and "
        "SW pipelines/train/rlhf.py:_prepare_single_model loads them into the reference",
    ),
    _precomputed_conflict(
        "precomputed-transformers",
        "requires recipe.backend megatron",
        "reference/trainer.py replaces SW megatron/trainers/dpo_trainer.py only",
    ),
)
"""Rules of the transformers backend."""
