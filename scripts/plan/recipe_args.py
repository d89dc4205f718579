"""A training job as ``recipe.args``, and the difference from a recipe."""

from collections.abc import Mapping
from dataclasses import replace

from launchers.config.flag_value import Value
from launchers.config.recipe import Recipe
from launchers.flags.equal_packs import DISPATCHER
from launchers.plan.training_job import Training

Args = Mapping[str, str | None]
"""Flag to value; None drops the flag."""


def flags(training: Training) -> dict[str, str | None]:
    """Return all flags that a search decides on; None drops a flag."""
    return {
        **layout_flags(training),
        DISPATCHER: training.dispatcher,
        **recompute_flags(training),
        **optimizer_flags(training),
    }


def layout_flags(training: Training) -> dict[str, str | None]:
    """Return the flags of the parallel sizes."""
    layout = training.layout
    return {
        "tensor_model_parallel_size": str(layout.tp),
        "pipeline_model_parallel_size": str(layout.pp),
        "context_parallel_size": str(layout.cp),
        "expert_model_parallel_size": str(layout.ep),
        "expert_tensor_parallel_size": str(layout.etp),
        "virtual_pipeline_model_parallel_size": None,
        "decoder_first_pipeline_num_layers": None,
        "decoder_last_pipeline_num_layers": None,
        "account_for_embedding_in_pipeline_split": None,
        "account_for_loss_in_pipeline_split": None,
        "sequence_parallel": "true" if training.sequence_parallel else "false",
    }


def recompute_flags(training: Training) -> dict[str, str | None]:
    """Return the flags of recomputation."""
    full = training.recompute == "full"
    modules = training.recompute == "selective"
    return {
        "recompute_granularity": training.recompute,
        "recompute_method": training.recompute_method or None,
        "recompute_num_layers": str(training.recompute_num_layers) if full else None,
        "recompute_modules": " ".join(training.recompute_modules) if modules else None,
    }


def optimizer_flags(training: Training) -> dict[str, str | None]:
    """Return the flags of the optimizer's precision and place."""
    aware, offload = training.precision_aware, training.offloads
    return {
        "use_precision_aware_optimizer": "true" if aware else None,
        "exp_avg_dtype": training.exp_avg_dtype if aware else None,
        "exp_avg_sq_dtype": training.exp_avg_sq_dtype if aware else None,
        "main_grads_dtype": training.main_grads_dtype if aware else None,
        "optimizer_cpu_offload": "true" if offload else None,
        "optimizer_offload_fraction": f"{training.optimizer_offload:g}" if offload else None,
    }


DEFAULTS = {
    **{name: "1" for name in ("context_parallel_size", "expert_model_parallel_size")},
    **{name: "1" for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size")},
    "expert_tensor_parallel_size": "1",
    DISPATCHER: "alltoall",
    "sequence_parallel": "false",
    "recompute_granularity": "selective",
    "recompute_modules": "core_attn",
    "use_precision_aware_optimizer": "false",
    "exp_avg_dtype": "fp32",
    "exp_avg_sq_dtype": "fp32",
    "main_grads_dtype": "fp32",
    "optimizer_cpu_offload": "false",
}
"""Defaults of ms-swift (``swift/megatron/arguments/megatron_args.py``), but for
``recompute_num_layers``, which the chart requires (``recompute-layers-missing``)."""


def changes(recipe: Recipe, wanted: Args) -> dict[str, str | None]:
    """Return the wanted flags whose values differ from the recipe's.

    >>> from launchers.config.recipe import parse
    >>> recipe = parse({"backend": "megatron", "task": "rlhf", "model": "m", "dataset": ["d"],
    ...                 "args": {"tensor_model_parallel_size": 4}})
    >>> changes(recipe, {"tensor_model_parallel_size": "2", "context_parallel_size": "1",
    ...                  "recompute_num_layers": "1"})
    {'tensor_model_parallel_size': '2', 'recompute_num_layers': '1'}
    """
    return {
        name: value
        for name, value in wanted.items()
        if recipe.args.get(name, DEFAULTS.get(name)) != (value or DEFAULTS.get(name))
    }


def merged(recipe: Recipe, wanted: Args) -> Recipe:
    """Return the recipe with the wanted flags; None drops a flag."""
    args: dict[str, Value] = {k: v for k, v in recipe.args.items() if k not in wanted}
    return replace(recipe, args=args | {k: v for k, v in wanted.items() if v is not None})
