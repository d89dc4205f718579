"""Locate the installed ms-swift without importing it, which takes seconds."""

import importlib.util
from pathlib import Path

from launchers.exits import Exit, LaunchError


def package_folder(name: str) -> Path:
    """Return the folder of an installed top-level package.

    Raises:
        LaunchError: CONFIG if it is not installed.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise LaunchError(
            Exit.CONFIG,
            f"Python package {name} is not installed",
            "use an image that has it",
            id="package-missing",
        )
    return Path(spec.origin).parent


def swift_folder() -> Path:
    """Return ms-swift's folder."""
    return package_folder("swift")
