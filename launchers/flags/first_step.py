"""Recipes whose policy is the reference at the first optimizer step, so that its loss is known.

``training/collect/first_step_*.py`` measure that step, ``metrics/first_step.py`` judges it.
"""

from collections.abc import Callable
from typing import Any

from launchers.config.flag_value import words
from launchers.config.recipe import ADAPTERS, Recipe

_ZERO_AT_START = ("true", "gaussian")
"""Values of ``init_weights`` whose adapters add nothing before the first step (peft
``tuners/lora/layer.py: reset_lora_parameters``): the others change weights of the model as well."""


def wanted(recipe: Recipe) -> bool:
    """Return whether the first step of a fresh run of a recipe is judged.

    >>> wanted(Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",), args={}))
    True
    """
    return recipe.check_first_step and not unjudged(recipe)


def unjudged(recipe: Recipe) -> str:
    """Return why policy and reference may differ at the first step; empty if they may not."""
    if recipe.preference != "dpo":
        return "the loss is not DPO"
    if recipe.is_on("reference_free"):
        return "reference_free leaves the reference out of the loss"
    if recipe.backend == "transformers" and recipe.arg("ld_alpha") not in ("", "1", "1.0"):
        return "ld_alpha scales the end of the policy's longer answers, and not the reference's"
    if not same_adapters(recipe.args.get):
        return "policy and reference begin with different adapters"
    if recipe.trains_adapter:
        return _unjudged_adapter(recipe)
    return _unjudged_arithmetic(recipe)


def same_adapters(value: Callable[[str], Any]) -> bool:
    """Return whether policy and reference begin with the same adapter, or both without one.

    An adapter of Megatron's format takes precedence (``swift/megatron/trainers``).

    >>> same_adapters({"adapters": "/a", "ref_adapters": ["/a"]}.get)
    True
    >>> same_adapters({"adapters": "/a"}.get), same_adapters({}.get)
    (False, True)
    """
    policy, reference, mcore, mcore_reference = (words(value(name) or []) for name in ADAPTERS)
    return mcore == mcore_reference if mcore or mcore_reference else policy == reference


def _unjudged_adapter(recipe: Recipe) -> str:
    """Return why an adapter may not be zero at the start."""
    if recipe.arg("tuner_type", "lora") not in ("lora", "full"):  # full with an adapter is LoRA
        return "only LoRA is known to begin at zero"
    if recipe.arg("init_weights", "true").lower() not in _ZERO_AT_START:
        return "init_weights changes the model's weights"
    if recipe.is_on("use_dora"):
        return "DoRA divides the weights by their norms, which rounds them"
    return _unjudged_arithmetic(recipe)


def _unjudged_arithmetic(recipe: Recipe) -> str:
    """Return why the same weights may give other log-probabilities in training."""
    if recipe.arg("fp8_format") or recipe.arg("fp4_format"):
        return "the scales of fp8 and fp4 depend on the microbatches before"
    if recipe.arg("moe_expert_capacity_factor") and recipe.reference == "precomputed":
        return "which tokens are dropped depends on the microbatch"
    if recipe.arg("moe_router_load_balancing_type") == "sinkhorn":
        return "sinkhorn routes differently in training"
    if recipe.arg("neftune_noise_alpha") not in ("", "0", "0.0"):
        return "NEFTune adds noise in training"
    return ""
