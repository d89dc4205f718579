"""Install the features that ``DPO_FEATURES`` names."""

import importlib
from collections.abc import Mapping

from launchers import logs
from launchers.flags.features import FEATURES, VARIABLE, Feature
from launchers.stop import finished, sigterm, uncaught
from launchers.training.installed import INSTALLED, VERDICTS
from launchers.upstream import record as upstream_record
from launchers.upstream.table import of_feature

_BY_NAME = {feature.name: feature for feature in FEATURES}


def load(env: Mapping[str, str]) -> None:
    """Install the features of this process in the order in which they are named.

    Without ``DPO_FEATURES``, outside of a run of the launcher, nothing is installed. Otherwise an
    uncaught exception ends the process at once, and so does the end of a program that has trained.
    Rank 0 logs the names in one line, then a line for each patch.

    ``env``: the environment, with torchrun's ``RANK``.

    Raises:
        LaunchError: CONFIG for a patch that does not fit the installed upstream.
    """
    names = [name for name in env.get(VARIABLE, "").split(",") if name]
    if names:
        sigterm.install()
        uncaught.install()
        finished.end_at_exit()
    for name in names:
        install(name)
    if names and env.get("RANK", "0") == "0":
        print(logs.format_event("features", installed=",".join(INSTALLED)), flush=True)
        for verdict in VERDICTS.values():
            on = {"proved": verdict.proved} if verdict.proved else {}
            fields = {"effect": verdict.patch.effect, "state": verdict.state, **on}
            event = logs.format_event(f"patch {verdict.patch.name}", **fields)
            print(f"{event} sources={logs.format_value(verdict.releases)}", flush=True)
        if found := upstream_record.never_run():
            print(
                logs.format_event(upstream_record.NEVER_RUN, packages=", ".join(found)), flush=True
            )


def install(name: str) -> None:
    """Import a feature's module; let it patch ms-swift, or register its trainer callback.

    A patch that only saves time or memory is left out where upstream's source is unknown; the
    feature's callback, which the command line names, then does nothing.

    Raises:
        LaunchError: CONFIG for a patch that can't be left out where upstream's source is unknown.
    """
    feature, verdict = _BY_NAME[name], of_feature(name)
    if verdict is not None:
        if verdict.state == "refused":
            raise verdict.error()
        VERDICTS[name] = verdict
        verdict.log()
        if not verdict.is_installed:
            _register(feature, None)
            return
    module = importlib.import_module(f"launchers.{feature.module}")
    made = getattr(module, feature.function)
    if isinstance(made, type):
        _register(feature, made)
    else:
        made()
    INSTALLED.append(name)


def _register(feature: Feature, callback: type | None) -> None:
    """Register a feature's trainer callback; for None upstream's base class, which does nothing."""
    if feature.callback is None:
        return
    is_megatron = feature.backend == "megatron"
    folder = "swift.megatron.callbacks" if is_megatron else "swift.callbacks"
    base = importlib.import_module(f"{folder}.base")
    mapping = importlib.import_module(f"{folder}.mapping")
    if is_megatron:
        mapping.megatron_callbacks_map[feature.callback] = callback or base.MegatronCallback
    else:
        mapping.callbacks_map[feature.callback] = callback or base.TrainerCallback
