"""Install the features that ``DPO_FEATURES`` names, and record them with each checkpoint."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.flags.features import FEATURES, VARIABLE
from launchers.storage import checkpoint
from launchers.system import atomic_file

_BY_NAME = {feature.name: feature for feature in FEATURES}
_installed: list[str] = []


def load(env: Mapping[str, str]) -> None:
    """Install the features of this process in the order in which they are named.

    Without ``DPO_FEATURES``, outside of a run of the launcher, nothing is installed. Rank 0 logs
    the names in one line.

    Args:
        env: the environment, with torchrun's ``RANK``.

    Raises:
        LaunchError: CONFIG for a name that is unknown, or that is already installed.
    """
    names = [name for name in env.get(VARIABLE, "").split(",") if name]
    for name in names:
        install(name)
    if names and env.get("RANK", "0") == "0":
        print(logs.format_event("features", installed=",".join(names)), flush=True)


def install(name: str) -> None:
    """Import a feature's module by its full name and let it patch ms-swift.

    Raises:
        LaunchError: CONFIG for a name that is unknown, or that is already installed: a second
            installation would wrap the first.
    """
    if name not in _BY_NAME:
        raise LaunchError(
            Exit.CONFIG,
            f"{VARIABLE}: {name} is not a feature of the launcher",
            "do not set it; the launcher derives it from the recipe",
            id="feature-unknown",
        )
    if name in _installed:
        raise LaunchError(
            Exit.CONFIG,
            f"{VARIABLE}: the feature {name} is already installed in this process",
            "name it once, and load swift_plugin.py only once",
            id="feature-twice",
        )
    feature = _BY_NAME[name]
    module = importlib.import_module(f"{__package__}.{feature.module}")
    getattr(module, feature.function)()
    _installed.append(name)


def record(folder: Path) -> None:
    """Write the names of the installed features into a checkpoint, before it is sealed."""
    document = {"features": _installed}
    atomic_file.replace(folder / checkpoint.FEATURES, json.dumps(document, indent=1) + "\n")
