"""Rules of adapter training: adapters that ms-swift cannot save, load again or train correctly."""

from launchers.config.recipe import TRAINS
from launchers.rules.engine import (
    RLHF,
    TRAINS_ADAPTER,
    Conflict,
    Range,
    Rule,
    given,
    has,
    missing,
    none_of,
    one_of,
    over,
    under,
)
from launchers.rules.optimizer import count
from launchers.rules.parallelism import ETP, VPP

_TUNER, _TARGETS = "tuner_type", "target_modules"
_DEFAULTS = {
    "lora_rank": ("8",),
    "lora_alpha": ("32", "32.0"),
    "lora_dropout": ("0.05",),
    _TARGETS: ("all-linear",),
}
"""Flags of an adapter, with ms-swift's defaults."""
_EXPERTS = ("all-linear", "linear_fc1", "linear_fc2")
"""Words of ``target_modules`` that put an adapter on the experts."""

LORA: tuple[Rule, ...] = (
    count("lora_rank", "peft tuners/lora/layer.py: ValueError"),
    Conflict(
        id="lora-alpha",
        when=(under("lora_alpha", "0.000001"),),
        says="{lora_alpha} scales the adapter by 0 or less: it learns nothing, or the opposite; "
        "use a number above 0",
        source="peft tuners/lora/layer.py: scaling = lora_alpha / r, no check",
    ),
    Range(
        id="lora-dropout",
        flag="lora_dropout",
        noun="share",
        high="1",
        below=True,
        source="torch dropout: with 1 the adapter has no input and learns nothing",
    ),
)
"""Rules of both backends."""
ADAPTER: tuple[Rule, ...] = (
    *LORA,
    *(
        Conflict(
            id="adapter-flags-full",
            when=(none_of(flag, *default), one_of(TRAINS, "full")),
            says="has no effect, since tuner_type is full and all parameters are trained; "
            "set tuner_type: lora, or remove it",
            source="SW megatron_args.py: the default of tuner_type is full, unlike that of the "
            "transformers trainer",
        )
        for flag, default in _DEFAULTS.items()
    ),
    Conflict(
        id="adapter-lora-llm",
        when=(one_of(_TUNER, "lora_llm"),),
        says="lora_llm does not save an adapter, so an interrupted run would start with a new one; "
        "use lora or full",
        source="SW trainers/base.py:save_checkpoint, skip_saving_adapter",
    ),
    Conflict(
        id="adapter-virtual-pipeline",
        when=(TRAINS_ADAPTER, over(VPP, "1")),
        says="{" + VPP + "} model chunks cannot load an adapter's checkpoint; remove it, "
        "or train all parameters",
        source="SW megatron_lm_utils.py:load_mcore_checkpoint loads several chunks strictly",
    ),
    Conflict(
        id="adapter-target-regex",
        when=(TRAINS_ADAPTER, given("target_regex")),
        says="an adapter selected by a pattern cannot be saved; list the layers in "
        "target_modules instead",
        source="SW megatron/init.py: AssertionError in the first save",
    ),
    *(
        Conflict(
            id="reference-adapter",
            when=(RLHF, given(flag)),
            says="ms-swift 4.4.1 would not train against this adapter: "
            f"{wrong}; merge it into recipe.model (swift export --merge_lora true) and remove it",
            source="SW rlhf_mixin.py, ms-swift issue 9934: with LoRA ref_models is empty, so "
            "load_weights reads nothing; mcore_ref_adapter is loaded into wrapped_models. 4.5.3 "
            "loads both into the policy's adapter ref_adapter",
            fixed_in="4.5.3",
        )
        for flag, wrong in (
            ("ref_adapters", "the reference would be the base model"),
            ("mcore_ref_adapter", "it would overwrite the policy"),
        )
    ),
    *(
        Conflict(
            id="adapter-expert-tensor",
            when=(TRAINS_ADAPTER, over(ETP, "1"), targeted),
            says=f"{{{ETP}}} is not supported with an adapter on the experts: the result may be "
            f"wrong without an error; use {ETP}: 1",
            source="Megatron-Bridge issue 5635 in a sister of MB tuners/lora.py; not compared; "
            "MB 1.6.5 sums the gradient of the replicated factor over the group of TP, not ETP",
        )
        for targeted in (missing(_TARGETS), *(has(_TARGETS, word) for word in _EXPERTS))
    ),
)
"""Rules of the Megatron backend."""
