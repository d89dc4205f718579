"""Install the features that ``DPO_FEATURES`` names, and record them with each checkpoint."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.flags.features import FEATURES, VARIABLE, Feature
from launchers.storage import checkpoint
from launchers.system import atomic_file
from launchers.training.stop import finished, uncaught
from launchers.upstream import record as upstream_record
from launchers.upstream.patches import Verdict
from launchers.upstream.table import of_feature

_BY_NAME = {feature.name: feature for feature in FEATURES}
_installed: list[str] = []
_left: list[bool] = []
"""Filled once an evaluation of this process was left."""
_verdicts: dict[str, Verdict] = {}
"""The patches of the features of this process, by feature."""


def load(env: Mapping[str, str]) -> None:
    """Install the features of this process in the order in which they are named.

    Without ``DPO_FEATURES``, outside of a run of the launcher, nothing is installed. Otherwise an
    uncaught exception ends the process at once, and so does the end of a program that has trained.
    Rank 0 logs the names in one line, then a line for each patch.

    Args:
        env: the environment, with torchrun's ``RANK``.

    Raises:
        LaunchError: CONFIG for a name that is unknown, or that is already installed, and for a
            patch that does not fit the installed upstream.
    """
    names = [name for name in env.get(VARIABLE, "").split(",") if name]
    if names:
        uncaught.install()
        finished.end_at_exit()
    for name in names:
        install(name)
    if names and env.get("RANK", "0") == "0":
        print(logs.format_event("features", installed=",".join(_installed)), flush=True)
        for verdict in _verdicts.values():
            fields = {"effect": verdict.patch.effect, "state": verdict.state}
            event = logs.format_event(f"patch {verdict.patch.name}", **fields)
            print(f"{event} sources={logs.format_value(verdict.releases)}", flush=True)
        if found := upstream_record.never_run():
            print(
                logs.format_event(upstream_record.NEVER_RUN, packages=", ".join(found)), flush=True
            )


def install(name: str) -> None:
    """Import a feature's module by its full name and let it patch ms-swift.

    A patch that only saves time or memory is left out where upstream's source is unknown; the
    feature's callback, which the command line names, then does nothing.

    Raises:
        LaunchError: CONFIG for a name that is unknown, or that is already installed: a second
            installation would wrap the first; and for a patch that can't be left out where
            upstream's source is unknown.
    """
    if name not in _BY_NAME:
        raise LaunchError(
            Exit.CONFIG,
            f"{VARIABLE}: {name} is not a feature of the launcher",
            "do not set it; the launcher derives it from the recipe",
            id="feature-unknown",
        )
    if name in _installed or name in _verdicts:
        raise LaunchError(
            Exit.CONFIG,
            f"{VARIABLE}: the feature {name} is already installed in this process",
            "name it once, and load swift_plugin.py only once",
            id="feature-twice",
        )
    feature, verdict = _BY_NAME[name], of_feature(name)
    if verdict is not None:
        if verdict.state == "refused":
            raise verdict.error()
        _verdicts[name] = verdict
        verdict.log()
        if not verdict.is_installed:
            _register_nothing(feature)
            return
    module = importlib.import_module(f"{__package__}.{feature.module}")
    getattr(module, feature.function)()
    _installed.append(name)


def installed() -> tuple[str, ...]:
    """Return the names of the features installed in this process."""
    return tuple(_installed)


def _register_nothing(feature: Feature) -> None:
    """Register upstream's base class, which does nothing, as the callback of a feature left out."""
    if feature.callback is None:
        return
    is_megatron = feature.backend == "megatron"
    folder = "swift.megatron.callbacks" if is_megatron else "swift.callbacks"
    base = importlib.import_module(f"{folder}.base")
    mapping = importlib.import_module(f"{folder}.mapping")
    if is_megatron:
        mapping.megatron_callbacks_map[feature.callback] = base.MegatronCallback
    else:
        mapping.callbacks_map[feature.callback] = base.TrainerCallback


def note_evaluation_left() -> None:
    """Note that the evaluation of this step is left: the attempt that resumes makes it first."""
    _left.append(True)


def record(folder: Path) -> None:
    """Write features, patches and versions of packages into a checkpoint, before it is sealed."""
    document = {
        "features": _installed,
        "patches": upstream_record.document(_verdicts.values()),
        **({"owes_evaluation": True} if _left else {}),
        "versions": upstream_record.versions(os.environ.get("DPO_LAUNCHER_DIGEST", "")),
    }
    atomic_file.replace(folder / checkpoint.FEATURES, json.dumps(document, indent=1) + "\n")
