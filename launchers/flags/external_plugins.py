"""The files of ms-swift's ``--external_plugins``: the launcher's own, and the user's."""

from collections.abc import Iterable
from pathlib import Path

from launchers import PACKAGE
from launchers.config.flag_value import words
from launchers.config.recipe import Recipe
from launchers.exits import Exit, LaunchError
from launchers.flags.code_files import in_clone

PLUGIN = PACKAGE / "training" / "swift_plugin.py"
"""The launcher's only entry in ``--external_plugins``; it stands before the user's."""
_OLD_FOLDER = "launchers"
_OLD_FILES = frozenset(
    f"swift_{name}.py"
    for name in (
        "phases_megatron",
        "phases_transformers",
        "seal_megatron",
        "seal_transformers",
        "merge_last",
        "metrics",
        "metrics_transformers",
        "cpu",
        "one_read",
        "device_read",
        "fused_norm",
        "grad_check",
        "grouped_product",
        "pack_lengths",
        "chunked_adam",
        "reference",
        "overlap",
        "tokens",
        "packing",
        "equal_packs",
        "rank_order",
        "gather",
        "search_path",
    )
)
"""Plugins in ``args.json`` of checkpoints and exports made before ``PLUGIN`` existed, when each
feature was a file of its own in the folder ``launchers``."""


def plugins(recipe: Recipe, clone: Path | None) -> list[str]:
    """List the files for ``--external_plugins``: the launcher's, then the user's.

    The user's relative paths start in ``clone``.

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
    return [
        str(PLUGIN),
        *(in_clone("recipe.args.external_plugins", plugin, clone) for plugin in given),
    ]


def users_plugins(external_plugins: Iterable[str]) -> list[str]:
    """Return the user's files among those of ``--external_plugins`` or of an ``args.json``.

    Recognises the launcher's entry of today, wherever it lay, and those of checkpoints made before
    there was a single one.

    >>> users_plugins(["/opt/launchers/training/swift_plugin.py", "/w/code/pairs.py",
    ...                "/opt/launchers/swift_metrics.py", "/w/code/swift_metrics.py"])
    ['/w/code/pairs.py', '/w/code/swift_metrics.py']
    """
    return [each for each in external_plugins if not _is_own(Path(each))]


def _is_own(path: Path) -> bool:
    if path.name == PLUGIN.name:  # ``plugins`` refuses a user's file of this name
        return True
    return path.name in _OLD_FILES and path.parent.name == _OLD_FOLDER
