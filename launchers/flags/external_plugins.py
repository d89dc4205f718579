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

    The launcher's is known by its name, wherever it lay: ``plugins`` refuses a user's file of it.

    >>> users_plugins(["/opt/launchers/training/swift_plugin.py", "/w/code/pairs.py"])
    ['/w/code/pairs.py']
    """
    return [each for each in external_plugins if Path(each).name != PLUGIN.name]
