"""Which in-training code a run loads by ``--external_plugins``, and which callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.recipe import NO, Recipe, words


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One file of the launcher's own in-training code."""

    file: str
    wanted: Callable[[Recipe, bool], bool]
    """Whether a recipe loads it; the second argument tells a run without GPUs."""
    callback: str | None = None
    """The name under which it registers a callback of the trainer."""


def _has_narrow_moments(recipe: Recipe) -> bool:
    """Tell whether the optimizer keeps moments in less than fp32: its step must be cut then."""
    aware = recipe.arg("use_precision_aware_optimizer", "false").lower() not in NO
    types = (recipe.arg(name, "fp32") for name in ("exp_avg_dtype", "exp_avg_sq_dtype"))
    return recipe.backend == "megatron" and aware and any(each != "fp32" for each in types)


def _reads_twice(recipe: Recipe) -> bool:
    """Tell whether ms-swift reads the weights for the policy and for a reference beside it."""
    return (
        recipe.backend == "megatron"
        and recipe.task == "rlhf"
        and recipe.arg("tuner_type", "full") == "full"
        and recipe.arg("rlhf_type", "dpo") in ("dpo", "kto")
        and recipe.reference == "online"
    )


def _keeps_tokens(recipe: Recipe) -> bool:
    """Tell whether rows are tokenised before the first step, and the user does not forbid it."""
    streams = recipe.arg("streaming", "false").lower() not in NO
    return not streams and recipe.arg("load_from_cache_file", "true").lower() not in NO


def _has_packs(recipe: Recipe) -> bool:
    """Tell whether rows are packed before the first step: a stream is packed on the way."""
    streams = recipe.arg("streaming", "false").lower() not in NO
    packs = recipe.arg("packing", "false").lower() not in NO
    return recipe.backend == "megatron" and packs and not streams


OWN = (
    Plugin(  # first: its import ends the phase that it is named for
        file="swift_phases_megatron.py",
        wanted=lambda recipe, _: recipe.backend == "megatron",
        callback="phases",
    ),
    Plugin(
        file="swift_phases_transformers.py",
        wanted=lambda recipe, _: recipe.backend == "transformers",
        callback="phases",
    ),
    Plugin(
        file="swift_seal_megatron.py",
        wanted=lambda recipe, _: recipe.backend == "megatron",
        callback="seal",
    ),
    Plugin(
        file="swift_seal_transformers.py",
        wanted=lambda recipe, _: recipe.backend == "transformers",
        callback="seal",
    ),
    Plugin(
        file="swift_metrics.py",
        wanted=lambda recipe, _: recipe.backend == "megatron",
        callback="metrics",
    ),
    Plugin(
        file="swift_metrics_transformers.py",
        wanted=lambda recipe, _: recipe.backend == "transformers",
        callback="metrics",
    ),
    Plugin(file="swift_cpu.py", wanted=lambda _, on_cpu: on_cpu),
    Plugin(file="swift_one_read.py", wanted=lambda recipe, _: _reads_twice(recipe)),
    Plugin(file="swift_device_read.py", wanted=lambda recipe, _: recipe.backend == "megatron"),
    Plugin(file="swift_fused_norm.py", wanted=lambda recipe, _: recipe.backend == "megatron"),
    Plugin(file="swift_chunked_adam.py", wanted=lambda recipe, _: _has_narrow_moments(recipe)),
    Plugin(file="swift_reference.py", wanted=lambda recipe, _: recipe.reference == "precomputed"),
    Plugin(file="swift_tokens.py", wanted=lambda recipe, _: _keeps_tokens(recipe)),
    Plugin(file="swift_packing.py", wanted=lambda recipe, _: _has_packs(recipe)),
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
        LaunchError: CONFIG for a relative path where there is no clone.
    """
    own = [str(folder / plugin.file) for plugin in OWN if plugin.wanted(recipe, on_cpu)]
    given = words(recipe.args.get("external_plugins", []))
    return own + [_in_clone(plugin, clone) for plugin in given]


def callbacks(recipe: Recipe, *, on_cpu: bool) -> list[str]:
    """List the trainer's callbacks of a run: the launcher's own, then the user's."""
    own = [plugin.callback for plugin in OWN if plugin.wanted(recipe, on_cpu)]
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
