"""Which recipes compute the products of a layer's experts together, and stack their adapters."""

from launchers.config.recipe import Recipe

_CUT = ("dist_ckpt_save_pre_mcore_014", "use_megatron_fsdp")
"""Formats of checkpoints that cut each weight by itself."""


def wanted(recipe: Recipe) -> bool:
    """Return whether the experts of a layer use grouped GEMMs and their weights stay on the GPU."""
    return recipe.is_on("moe_grouped_gemm", "true") and not recipe.is_on("offload_model")


def orders_weights(recipe: Recipe) -> bool:
    """Return whether grouped experts are trained whose weights can lie in another order."""
    return not recipe.trains_adapter and _has_forms(recipe)


def stacks_adapters(recipe: Recipe) -> bool:
    """Return whether an adapter of grouped experts is trained whose weights can be stacked."""
    return recipe.trains_adapter and _has_forms(recipe)


def _has_forms(recipe: Recipe) -> bool:
    """Return whether optimizer and checkpoints treat experts' weights alike in all forms.

    Not an optimizer that treats matrices in another way than stacks of them (Muon).
    """
    fits = recipe.arg("optimizer", "adam") in ("adam", "sgd")
    return wanted(recipe) and fits and not any(map(recipe.is_on, _CUT))
