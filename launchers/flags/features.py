"""The launcher's code inside ms-swift's training processes: which features a recipe loads.

ms-swift is given one file of ours, ``training/swift_plugin.py``. It reads the names of the features
from ``DPO_FEATURES`` and installs them in that order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any

from launchers.config.flag_value import words
from launchers.config.recipe import PAIRED, Backend, Recipe
from launchers.flags import equal_packs, first_step, grouped_experts
from launchers.flags.code_files import ROW_MAKERS
from launchers.flags.equal_packs import has_packs

VARIABLE = "DPO_FEATURES"
"""Environment variable of the training processes: names of features, separated by commas. The
launcher sets it; in the launcher's own environment it is refused like any unknown ``DPO_`` name."""
SAVE_VARIABLE = "DPO_SAVE_SECONDS"
"""Environment variable of the training processes: seconds of work that an interruption may lose; 0
where ms-swift chooses the steps to save. The launcher sets it, as above."""
DROPPED_VARIABLE, CACHES_VARIABLE = "DPO_MAX_DROPPED_ROWS", "DPO_CACHE_TOKENS"
"""Variables of the training processes: ``recipe.maxDroppedRows``; 1 if tokens may be cached."""
EVALUATE_VARIABLE = "DPO_EVALUATE_FIRST"
"""Environment variable of the training processes: 1 if a run that resumes evaluates its checkpoint,
since it was stopped before that evaluation had ended. The launcher sets it, as above."""
EXPORT_VARIABLE = "DPO_EXPORTED"
"""Environment variable of the training processes: ``recipe.export``. The launcher sets it."""


@dataclass(frozen=True)
class Feature:
    """One feature of the launcher's code inside the training processes."""

    name: str
    """Its name in ``DPO_FEATURES``."""
    module: str
    """Its module, below ``launchers``."""
    backend: Backend | None = None
    """The trainer it belongs to; None for both."""
    _: KW_ONLY
    function: str = "install"
    """The function of that module that patches ms-swift, or its class of trainer callbacks."""
    is_for_cpu: bool = False
    """True if only runs without GPUs load it."""
    wanted: Callable[[Recipe], bool] = lambda recipe: True
    callback: str | None = None
    """The name of its trainer callback."""

    def is_enabled(self, recipe: Recipe, *, on_cpu: bool) -> bool:
        """Return whether a run loads it."""
        fits = self.backend in (None, recipe.backend) and not recipe.script
        return fits and (on_cpu or not self.is_for_cpu) and self.wanted(recipe)


def _has_large_step(recipe: Recipe) -> bool:
    """Return whether the optimizer's step must be split.

    Transformer Engine copies all moments that are narrower than fp32 at once; an adapter on every
    expert has too many small weights for one step.
    """
    types = (recipe.arg(name, "fp32") for name in ("exp_avg_dtype", "exp_avg_sq_dtype"))
    is_narrow = recipe.is_on("use_precision_aware_optimizer") and any(t != "fp32" for t in types)
    return is_narrow or recipe.trains_adapter


def _has_narrow_moments(recipe: Recipe) -> bool:
    """Return whether the precision-aware optimizer keeps a moment in bf16."""
    types = (recipe.arg(name, "fp32") for name in ("exp_avg_dtype", "exp_avg_sq_dtype"))
    return recipe.is_on("use_precision_aware_optimizer") and "bf16" in types


def caches_tokens(recipe: Recipe) -> bool:
    """Return whether rows are tokenised before the first step and caching is not switched off."""
    return not recipe.is_on("streaming") and recipe.is_on("load_from_cache_file", "true")


def _records_pairs(recipe: Recipe) -> bool:
    """Return whether pairs are recorded: DPO on rows whose numbers the cache of tokens has."""
    is_wanted = recipe.pair_ledger and recipe.task == "rlhf" and recipe.preference == "dpo"
    return is_wanted and caches_tokens(recipe)


def reads_forms(recipe: Recipe) -> bool:
    """Return whether the launcher's readers of rows may be used: no code of the user makes them."""
    is_plain = recipe.preference in PAIRED and not recipe.is_on("streaming")
    return is_plain and not any(map(recipe.args.get, ROW_MAKERS))


def evaluates(recipe: Recipe) -> bool:
    """Return whether held-out rows are evaluated by one pass of the policy, without generation.

    ms-swift holds no rows out of a stream (``swift/arguments/base_args/data_args.py``).

    >>> evaluates(Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",),
    ...                  args={"split_dataset_ratio": "0.01"}))
    True
    """
    is_scored = recipe.task != "rlhf" or recipe.preference in (*PAIRED, "kto")
    return is_scored and recipe.holds_out and not recipe.is_on("streaming")


def _probes(recipe: Recipe) -> bool:
    several = ("context_parallel", "virtual_pipeline_model_parallel", "sequence_parallel")
    is_plain = all(recipe.arg(f"{name}_size", "1") == "1" for name in several)
    return is_plain and recipe.preference == "dpo" and not recipe.is_on("streaming")


def _of_both(name: str, module: str, **given: Any) -> Iterator[Feature]:
    """Yield a feature of each trainer, whose names and modules end with it."""
    backends: tuple[Backend, ...] = ("megatron", "transformers")
    for backend in backends:
        yield Feature(f"{name}_{backend}", f"{module}_{backend}", backend, **given)


def _megatron(
    module: str, wanted: Callable[[Recipe], bool] = lambda _: True, *, name: str = "", **given: Any
) -> Feature:
    """Return a feature of Megatron's trainer, called as its module below ``training``."""
    own = name or module.rpartition(".")[2]
    return Feature(own, f"training.{module}", "megatron", wanted=wanted, **given)


def _tracker(name: str) -> Feature:
    module, function = "training.trackers", f"install_{name}"
    return Feature(name, module, function=function, wanted=lambda r: name in r.reports_to)


FEATURES = (
    # first: its installation marks the end of the phase ``imports``
    *_of_both("startup", "training.startup", callback="phases"),
    Feature("heartbeat", "hang.heartbeat"),
    _megatron("saving.save_megatron", attrgetter("saves_in_background"), name="background_save"),
    _megatron("saving.safetensors_last", attrgetter("writes_safetensors_once")),
    _megatron("optimizer.narrow_moments", _has_narrow_moments),
    *_of_both("seal", "training.seal", callback="seal"),
    _megatron(
        "merge_last",
        lambda recipe: recipe.trains_adapter and "merge_lora" not in recipe.args,
        function="MergeLastCallback",
        callback="merge_last",
    ),
    *_of_both(
        "metrics", "training.collect.collect", function="MetricsCallback", callback="metrics"
    ),
    Feature("epoch_order", "training.epochs.order", "transformers"),
    Feature("partial_window", "training.epochs.partial_window", "transformers"),
    *_of_both(
        "first_step",
        "training.collect.first_step",
        function="FirstStepCallback",
        callback="first_step",
        wanted=first_step.wanted,
    ),
    # before nonfinite, which forgets the batches of a step at its end
    *_of_both(
        "ledger",
        "training.ledger.ledger",
        function="LedgerCallback",
        callback="ledger",
        wanted=_records_pairs,
    ),
    *_of_both(
        "nonfinite",
        "training.collect.nonfinite",
        function="NonFiniteCallback",
        callback="nonfinite",
    ),
    Feature(
        "zero_gradient",
        "training.collect.batch_rows",
        function="judge_zeros",
        wanted=attrgetter("check_first_step"),
    ),
    Feature("probe", "evaluation.probe", wanted=_probes, callback="probe"),
    # after seal and probe: it stops when the checkpoint is complete
    Feature("stop_megatron", "stop.stop_megatron", "megatron"),
    Feature("stop_transformers", "stop.stop_transformers", "transformers", callback="stop"),
    *map(_tracker, ("wandb", "swanlab")),
    Feature("cpu_checkpoint", "training.cpu_checkpoint", is_for_cpu=True),
    _megatron(
        "weight_loading",
        lambda recipe: recipe.has_reference and recipe.reference == "online",
        name="one_read",
        function="install_one_read",
    ),
    _megatron("weight_loading", name="device_read", function="install_device_read"),
    _megatron("saving.shard_writes"),
    _megatron("saving.early_plots"),
    _megatron("checked_read"),
    _megatron("packs.engine_calls"),
    _megatron("optimizer.fused_norm"),
    _megatron("optimizer.grad_check"),
    _megatron("experts.grouped_product", grouped_experts.wanted),
    # after ``grouped_product``, which uses the weights after they are ordered and wrapped
    _megatron("experts.expert_order", grouped_experts.orders_weights),
    _megatron("experts.moved_rows", grouped_experts.wanted),
    # after ``grouped_product``, whose frozen experts it uses
    _megatron("experts.stacked_adapters", grouped_experts.stacks_adapters),
    _megatron("packs.pack_lengths", equal_packs.has_no_padding),
    _megatron("optimizer.chunked_adam", _has_large_step),
    Feature("reference", "reference.trainer", wanted=lambda r: r.reference == "precomputed"),
    Feature("row_forms", "training.tokens.row_forms", wanted=reads_forms),
    Feature("tokens", "training.tokens.cache"),
    _megatron("packs.packing", has_packs),
    Feature("evaluation", "evaluation.evaluation_megatron", "megatron", wanted=evaluates),
    # after ``reference``: both replace the trainer's loss
    _megatron("packs.pair_weights", attrgetter("weighs_pairs_equally")),
    Feature(
        "pair_weights_transformers",
        "training.packs.pair_weights_transformers",
        "transformers",
        wanted=attrgetter("weighs_pairs_equally"),
    ),
    _megatron("packs.equal_packs", equal_packs.wanted),
    _megatron("packs.counted_head", equal_packs.has_unread_losses),
    # after ``equal_packs`` and ``tokens``: it shortens what they return
    _megatron("packs.prompt_once", attrgetter("prompt_once")),
    _megatron("experts.filler_mask", equal_packs.has_no_padding),
    _megatron("experts.rank_order", equal_packs.wanted),
    _megatron("experts.early_counts", equal_packs.wanted),
)
"""All features, in the order in which they are installed."""


def names(recipe: Recipe, *, on_cpu: bool) -> list[str]:
    """List the features of a run in the order in which they are installed."""
    return [feature.name for feature in _enabled(recipe, on_cpu=on_cpu)]


def environment(recipe: Recipe, *, on_cpu: bool) -> dict[str, str]:
    """Return the environment variables by which features know what to install and to do."""
    seconds = 60 * recipe.save_minutes if recipe.saves_by_time else 0
    return {
        VARIABLE: ",".join(names(recipe, on_cpu=on_cpu)),
        SAVE_VARIABLE: str(seconds),
        DROPPED_VARIABLE: str(recipe.max_dropped_rows),
        CACHES_VARIABLE: "1" if caches_tokens(recipe) else "0",
        EXPORT_VARIABLE: recipe.export,
    }


def callbacks(recipe: Recipe, *, on_cpu: bool) -> list[str]:
    """List the trainer callbacks of a run: the launcher's, then the user's."""
    own = [feature.callback for feature in _enabled(recipe, on_cpu=on_cpu)]
    return [*filter(None, own), *words(recipe.args.get("callbacks", []))]


def users_callbacks(given: Sequence[str]) -> list[str]:
    """Return the user's callbacks among those of ``--callbacks`` or of an ``args.json``."""
    own = {feature.callback for feature in FEATURES}
    return [each for each in given if each not in own]


def _enabled(recipe: Recipe, *, on_cpu: bool) -> list[Feature]:
    return [feature for feature in FEATURES if feature.is_enabled(recipe, on_cpu=on_cpu)]
