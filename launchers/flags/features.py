"""The launcher's code inside ms-swift's training processes: which features a recipe loads.

ms-swift is given one file of ours, ``training/swift_plugin.py``. It reads the names of the features
from ``DPO_FEATURES`` and installs them in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers import PACKAGE
from launchers.config.flag_value import words
from launchers.config.recipe import PAIRED, Backend, Recipe
from launchers.exits import Exit, LaunchError
from launchers.flags import equal_packs, first_step
from launchers.flags.code_files import in_clone

VARIABLE = "DPO_FEATURES"
"""Environment variable of the training processes: names of features, separated by commas. The
launcher sets it; in the launcher's own environment it is refused like any unknown ``DPO_`` name."""
SAVE_VARIABLE = "DPO_SAVE_SECONDS"
"""Environment variable of the training processes: seconds of work that an interruption may lose; 0
where ms-swift chooses the steps to save. The launcher sets it, as above."""
EVALUATE_VARIABLE = "DPO_EVALUATE_FIRST"
"""Environment variable of the training processes: 1 if a run that resumes evaluates its checkpoint,
since it was stopped before that evaluation had ended. The launcher sets it, as above."""
PLUGIN = PACKAGE / "training" / "swift_plugin.py"
"""The launcher's only entry in ``--external_plugins``; it stands before the user's."""
_OLD_FOLDER = "launchers"
_OLD_FILES = frozenset(
    f"swift_{name}.py"
    for name in (
        *("phases_megatron", "phases_transformers", "seal_megatron", "seal_transformers"),
        *("merge_last", "metrics", "metrics_transformers", "cpu", "one_read", "device_read"),
        *("fused_norm", "grad_check", "grouped_product", "pack_lengths", "chunked_adam"),
        *("reference", "overlap", "tokens", "packing", "equal_packs", "rank_order"),
        *("gather", "search_path"),
    )
)
"""Plugins in ``args.json`` of checkpoints and exports made before ``PLUGIN`` existed, when each
feature was a file of its own in the folder ``launchers``."""


def _always(recipe: Recipe) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of the launcher's code inside the training processes."""

    name: str
    """Its name in ``DPO_FEATURES``."""
    module: str
    """Its module, below ``launchers.training``."""
    function: str = "install"
    """The function of that module that patches ms-swift or registers a callback with it."""
    backend: Backend | None = None
    """The trainer it belongs to; None for both."""
    is_for_cpu: bool = False
    """True if only runs without GPUs load it."""
    wanted: Callable[[Recipe], bool] = _always
    """Predicate: whether a recipe needs it."""
    callback: str | None = None
    """The name of the trainer callback that it registers."""

    def is_enabled(self, recipe: Recipe, *, on_cpu: bool) -> bool:
        """Return whether a run loads it."""
        fits = self.backend in (None, recipe.backend) and (on_cpu or not self.is_for_cpu)
        return fits and self.wanted(recipe)


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


def _saves_in_background(recipe: Recipe) -> bool:
    return recipe.saves_in_background


def _writes_safetensors_once(recipe: Recipe) -> bool:
    return recipe.writes_safetensors_once


def _reads_twice(recipe: Recipe) -> bool:
    """Return whether ms-swift loads the weights for the policy and again for a reference model."""
    return recipe.has_reference and recipe.reference == "online"


def _caches_tokens(recipe: Recipe) -> bool:
    """Return whether rows are tokenised before the first step and caching is not switched off."""
    return not recipe.is_on("streaming") and recipe.is_on("load_from_cache_file", "true")


def _has_packs(recipe: Recipe) -> bool:
    """Return whether rows are packed before the first step: a stream is packed while training."""
    return recipe.is_on("packing") and not recipe.is_on("streaming")


def _has_no_padding(recipe: Recipe) -> bool:
    """Return whether sequences are concatenated without padding."""
    return recipe.is_on("packing") or recipe.is_on("padding_free", "true")


def _has_grouped_experts(recipe: Recipe) -> bool:
    """Return whether the experts of a layer use grouped GEMMs and their weights stay on the GPU."""
    return recipe.is_on("moe_grouped_gemm", "true") and not recipe.is_on("offload_model")


def _merges_last(recipe: Recipe) -> bool:
    """Return whether an adapter is trained and the user does not set ``merge_lora``."""
    return recipe.trains_adapter and "merge_lora" not in recipe.args


def evaluates(recipe: Recipe) -> bool:
    """Return whether held-out rows are evaluated by one pass of the policy, without generation.

    ms-swift holds no rows out of a stream (``swift/arguments/base_args/data_args.py``).

    >>> evaluates(Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",),
    ...                  args={"split_dataset_ratio": "0.01"}))
    True
    """
    is_scored = recipe.task != "rlhf" or recipe.preference in (*PAIRED, "kto")
    return is_scored and recipe.holds_out and not recipe.is_on("streaming")


def _reports_to_wandb(recipe: Recipe) -> bool:
    return "wandb" in recipe.reports_to


def _reports_to_swanlab(recipe: Recipe) -> bool:
    return "swanlab" in recipe.reports_to


def _precomputes_reference(recipe: Recipe) -> bool:
    return recipe.reference == "precomputed"


def _weighs_pairs_equally(recipe: Recipe) -> bool:
    return recipe.weighs_pairs_equally


FEATURES = (
    # first: its installation marks the end of the phase ``imports``
    Feature(
        name="startup_megatron", module="startup_megatron", backend="megatron", callback="phases"
    ),
    Feature(
        name="startup_transformers",
        module="startup_transformers",
        backend="transformers",
        callback="phases",
    ),
    Feature(name="heartbeat", module="heartbeat"),
    Feature(
        name="background_save",
        module="saving.megatron",
        backend="megatron",
        wanted=_saves_in_background,
    ),
    Feature(
        name="safetensors_last",
        module="saving.safetensors_last",
        backend="megatron",
        wanted=_writes_safetensors_once,
    ),
    Feature(
        name="narrow_moments",
        module="optimizer.narrow_moments",
        backend="megatron",
        wanted=_has_narrow_moments,
    ),
    Feature(name="seal_megatron", module="seal_megatron", backend="megatron", callback="seal"),
    Feature(
        name="seal_transformers",
        module="seal_transformers",
        backend="transformers",
        callback="seal",
    ),
    Feature(
        name="merge_last",
        module="merge_last",
        backend="megatron",
        wanted=_merges_last,
        callback="merge_last",
    ),
    Feature(
        name="metrics_megatron", module="collect.megatron", backend="megatron", callback="metrics"
    ),
    Feature(
        name="metrics_transformers",
        module="collect.transformers",
        backend="transformers",
        callback="metrics",
    ),
    Feature(name="epoch_order", module="epochs.order", backend="transformers"),
    Feature(name="partial_window", module="epochs.partial_window", backend="transformers"),
    Feature(
        name="first_step_megatron",
        module="collect.first_step_megatron",
        backend="megatron",
        wanted=first_step.wanted,
        callback="first_step",
    ),
    Feature(
        name="first_step_transformers",
        module="collect.first_step_transformers",
        backend="transformers",
        wanted=first_step.wanted,
        callback="first_step",
    ),
    Feature(
        name="nonfinite_megatron",
        module="collect.nonfinite_megatron",
        backend="megatron",
        callback="nonfinite",
    ),
    Feature(
        name="nonfinite_transformers",
        module="collect.nonfinite_transformers",
        backend="transformers",
        callback="nonfinite",
    ),
    # after seal: it stops when the checkpoint is complete
    Feature(name="stop_megatron", module="stop.megatron", backend="megatron"),
    Feature(
        name="stop_transformers",
        module="stop.transformers",
        backend="transformers",
        callback="stop",
    ),
    Feature(name="wandb", module="trackers", function="install_wandb", wanted=_reports_to_wandb),
    Feature(
        name="swanlab", module="trackers", function="install_swanlab", wanted=_reports_to_swanlab
    ),
    Feature(name="cpu_checkpoint", module="cpu_checkpoint", is_for_cpu=True),
    Feature(
        name="one_read",
        module="weight_loading",
        function="install_one_read",
        backend="megatron",
        wanted=_reads_twice,
    ),
    Feature(
        name="device_read",
        module="weight_loading",
        function="install_device_read",
        backend="megatron",
    ),
    Feature(name="checked_read", module="checked_read", backend="megatron"),
    Feature(name="fused_norm", module="optimizer.fused_norm", backend="megatron"),
    Feature(name="grad_check", module="optimizer.grad_check", backend="megatron"),
    Feature(
        name="grouped_product",
        module="experts.grouped_product",
        backend="megatron",
        wanted=_has_grouped_experts,
    ),
    Feature(
        name="pack_lengths",
        module="packs.pack_lengths",
        backend="megatron",
        wanted=_has_no_padding,
    ),
    Feature(
        name="chunked_adam",
        module="optimizer.chunked_adam",
        backend="megatron",
        wanted=_has_large_step,
    ),
    Feature(name="reference", module="reference.trainer", wanted=_precomputes_reference),
    Feature(name="tokens", module="tokens.cache", wanted=_caches_tokens),
    Feature(name="packing", module="packs.packing", backend="megatron", wanted=_has_packs),
    Feature(name="evaluation", module="evaluation.megatron", backend="megatron", wanted=evaluates),
    # after ``reference``: both replace the trainer's loss
    Feature(
        name="pair_weights",
        module="packs.pair_weights",
        backend="megatron",
        wanted=_weighs_pairs_equally,
    ),
    Feature(
        name="pair_weights_transformers",
        module="packs.pair_weights_transformers",
        backend="transformers",
        wanted=_weighs_pairs_equally,
    ),
    Feature(
        name="equal_packs",
        module="packs.equal_packs",
        backend="megatron",
        wanted=equal_packs.wanted,
    ),
    Feature(
        name="filler_mask",
        module="experts.filler_mask",
        backend="megatron",
        wanted=_has_no_padding,
    ),
    Feature(
        name="rank_order",
        module="experts.rank_order",
        backend="megatron",
        wanted=equal_packs.wanted,
    ),
)
"""All features, in the order in which they are installed."""


def names(recipe: Recipe, *, on_cpu: bool) -> list[str]:
    """List the features of a run in the order in which they are installed.

    Args:
        recipe: the run's recipe.
        on_cpu: whether the run has no GPU.
    """
    return [feature.name for feature in _enabled(recipe, on_cpu=on_cpu)]


def environment(recipe: Recipe, *, on_cpu: bool) -> dict[str, str]:
    """Return the environment variables by which features know what to install and to do."""
    seconds = 60 * recipe.save_minutes if recipe.saves_by_time else 0
    return {VARIABLE: ",".join(names(recipe, on_cpu=on_cpu)), SAVE_VARIABLE: str(seconds)}


def callbacks(recipe: Recipe, *, on_cpu: bool) -> list[str]:
    """List the trainer callbacks of a run: the launcher's, then the user's."""
    own = [feature.callback for feature in _enabled(recipe, on_cpu=on_cpu)]
    return [*filter(None, own), *words(recipe.args.get("callbacks", []))]


def plugins(recipe: Recipe, clone: Path | None) -> list[str]:
    """List the files for ``--external_plugins``: the launcher's, then the user's.

    Args:
        recipe: the run's recipe.
        clone: the training code; the user's relative paths start there.

    Raises:
        LaunchError: CONFIG for a relative path without a clone, or for a file of the same name as
            the launcher's.
    """
    given = words(recipe.args.get("external_plugins", []))
    for flag in ("external_plugins", "custom_register_path"):  # ms-swift joins the two
        if PLUGIN.name not in {Path(each).name for each in words(recipe.args.get(flag, []))}:
            continue
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.args.{flag}: {PLUGIN.name} is the name of the launcher's own plugin",
            "rename yours: ms-swift imports plugins by file name, and only one per name",
            id="plugin-name-taken",
        )
    return [str(PLUGIN), *(in_clone("external_plugins", plugin, clone) for plugin in given)]


def users_plugins(external_plugins: Iterable[str]) -> list[str]:
    """Return the user's files among those of ``--external_plugins`` or of an ``args.json``.

    Recognises the launcher's entry of today, wherever it lay, and those of checkpoints made before
    there was a single one.

    >>> users_plugins(["/opt/launchers/training/swift_plugin.py", "/w/code/pairs.py",
    ...                "/opt/launchers/swift_metrics.py", "/w/code/swift_metrics.py"])
    ['/w/code/pairs.py', '/w/code/swift_metrics.py']
    """
    return [each for each in external_plugins if not _is_own(Path(each))]


def users_callbacks(given: Sequence[str]) -> list[str]:
    """Return the user's callbacks among those of ``--callbacks`` or of an ``args.json``."""
    own = {feature.callback for feature in FEATURES}
    return [each for each in given if each not in own]


def _enabled(recipe: Recipe, *, on_cpu: bool) -> list[Feature]:
    return [feature for feature in FEATURES if feature.is_enabled(recipe, on_cpu=on_cpu)]


def _is_own(path: Path) -> bool:
    if path.name == PLUGIN.name:  # ``plugins`` refuses a user's file of this name
        return True
    return path.name in _OLD_FILES and path.parent.name == _OLD_FOLDER
