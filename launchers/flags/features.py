"""Which in-training code a run loads by ``--external_plugins``, and which callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launchers.config.recipe import Backend, Recipe, words
from launchers.exits import Exit, LaunchError
from launchers.flags import equal_packs, overlap


def _always(recipe: Recipe) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One file of the launcher's own in-training code."""

    file: str
    backend: Backend | None = None
    """The trainer that it is for; None for either."""
    is_for_cpu: bool = False
    """Whether only a run without GPUs loads it."""
    wanted: Callable[[Recipe], bool] = _always
    """Whether a recipe has use for it."""
    callback: str | None = None
    """The name under which it registers a callback of the trainer."""

    def loads(self, recipe: Recipe, *, on_cpu: bool) -> bool:
        """Tell whether a run loads it."""
        fits = self.backend in (None, recipe.backend) and (on_cpu or not self.is_for_cpu)
        return fits and self.wanted(recipe)


def _has_large_step(recipe: Recipe) -> bool:
    """Tell whether the optimizer's step must be cut.

    Moments in less than fp32 are copied in it; an adapter beside experts has too many weights.
    """
    types = (recipe.arg(name, "fp32") for name in ("exp_avg_dtype", "exp_avg_sq_dtype"))
    is_narrow = recipe.is_on("use_precision_aware_optimizer") and any(t != "fp32" for t in types)
    return is_narrow or recipe.trains_adapter


def _reads_twice(recipe: Recipe) -> bool:
    """Tell whether ms-swift reads the weights for the policy and for a reference beside it."""
    return recipe.has_reference and recipe.reference == "online"


def _keeps_tokens(recipe: Recipe) -> bool:
    """Tell whether rows are tokenised before the first step, and the user does not forbid it."""
    return not recipe.is_on("streaming") and recipe.is_on("load_from_cache_file", "true")


def _has_packs(recipe: Recipe) -> bool:
    """Tell whether rows are packed before the first step: a stream is packed on the way."""
    return recipe.is_on("packing") and not recipe.is_on("streaming")


def _has_no_padding(recipe: Recipe) -> bool:
    """Tell whether texts lie one after the other in a row of their own lengths."""
    return recipe.is_on("packing") or recipe.is_on("padding_free", "true")


def _has_grouped_experts(recipe: Recipe) -> bool:
    """Tell whether the products of a layer's experts are taken together, and stay on the GPU."""
    return recipe.is_on("moe_grouped_gemm", "true") and not recipe.is_on("offload_model")


def _merges_once(recipe: Recipe) -> bool:
    """Tell whether an adapter is trained, and the user does not say when it is merged."""
    return recipe.trains_adapter and "merge_lora" not in recipe.args


def _takes_reference_once(recipe: Recipe) -> bool:
    return recipe.reference == "precomputed"


def _overlaps_experts(recipe: Recipe) -> bool:
    return overlap.switched(recipe.args.get("megatron_extra_kwargs", ""))


OWN = (
    # first: its import ends the phase that it is named for
    Plugin(file="training/phases_megatron.py", backend="megatron", callback="phases"),
    Plugin(file="training/phases_transformers.py", backend="transformers", callback="phases"),
    Plugin(file="training/seal_megatron.py", backend="megatron", callback="seal"),
    Plugin(file="training/seal_transformers.py", backend="transformers", callback="seal"),
    Plugin(
        file="training/merge_last.py",
        backend="megatron",
        wanted=_merges_once,
        callback="merge_last",
    ),
    Plugin(file="training/collect/megatron.py", backend="megatron", callback="metrics"),
    Plugin(file="training/collect/transformers.py", backend="transformers", callback="metrics"),
    Plugin(file="training/cpu_checkpoint.py", is_for_cpu=True),
    Plugin(file="training/one_read.py", backend="megatron", wanted=_reads_twice),
    Plugin(file="training/device_read.py", backend="megatron"),
    Plugin(file="training/fused_norm.py", backend="megatron"),
    Plugin(file="training/grad_check.py", backend="megatron"),
    Plugin(file="training/grouped_product.py", backend="megatron", wanted=_has_grouped_experts),
    Plugin(file="training/packs/pack_lengths.py", backend="megatron", wanted=_has_no_padding),
    Plugin(file="training/chunked_adam.py", backend="megatron", wanted=_has_large_step),
    Plugin(file="training/reference/reference.py", wanted=_takes_reference_once),
    # after it: it builds on the trainer that is named then
    Plugin(file="training/overlap.py", backend="megatron", wanted=_overlaps_experts),
    Plugin(file="training/tokens/tokens.py", wanted=_keeps_tokens),
    Plugin(file="training/packs/packing.py", backend="megatron", wanted=_has_packs),
    Plugin(file="training/packs/equal_packs.py", backend="megatron", wanted=equal_packs.wanted),
    Plugin(file="training/rank_order.py", backend="megatron", wanted=equal_packs.wanted),
    # last, before the user's
    Plugin(file="training/search_path.py"),
)
"""In the order in which ms-swift imports them."""


def plugins(recipe: Recipe, folder: Path, clone: Path | None, *, on_cpu: bool) -> list[str]:
    """List the plugins of a run: the launcher's own, then the user's.

    Args:
        recipe: the run's recipe.
        folder: of the launcher's own ``swift_*.py``.
        clone: the training code; relative paths of the user's start here.
        on_cpu: whether the run has no GPU.

    Raises:
        LaunchError: CONFIG for a relative path where there is no clone, or for a name of ours.
    """
    own = [str(folder / plugin.file) for plugin in OWN if plugin.loads(recipe, on_cpu=on_cpu)]
    given = words(recipe.args.get("external_plugins", []))
    taken = {plugin.file for plugin in OWN} & {Path(each).name for each in given}
    if taken:
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.args.external_plugins: the launcher has a plugin named {min(taken)}, too",
            "rename yours: ms-swift imports plugins by their names, and only one of a name",
        )
    return own + [_in_clone(plugin, clone) for plugin in given]


def callbacks(recipe: Recipe, *, on_cpu: bool) -> list[str]:
    """List the trainer's callbacks of a run: the launcher's own, then the user's."""
    own = [plugin.callback for plugin in OWN if plugin.loads(recipe, on_cpu=on_cpu)]
    return [*filter(None, own), *words(recipe.args.get("callbacks", []))]


def _in_clone(plugin: str, clone: Path | None) -> str:
    if Path(plugin).is_absolute():
        return plugin
    if clone is None:
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.args.external_plugins names {plugin!r}, and there is no clone",
            "set code.url and code.ref, or write an absolute path",
        )
    return str(clone / plugin)
