"""The run that a checkpoint belongs to, by its manifest and the files of the run that holds it."""

from collections.abc import Collection, Mapping
from typing import Any


def other_run(
    manifest: Mapping[str, Any], inputs: Mapping[str, Any], names: Collection[str]
) -> str:
    """Return the other run that a checkpoint belongs to; empty if it is this run's or unknown.

    Args:
        manifest: its ``COMPLETE.json``; that of an older launcher names no run.
        inputs: ``inputs.json`` of the run that holds it; empty if it has none.
        names: of that run, and those that it had in its attempts: its folder may have been moved.
    """
    run, saved = manifest.get("run"), manifest.get("inputs")
    if not run or not inputs:
        return ""
    made_of = saved if isinstance(saved, Mapping) else {}
    changed = sorted(k for k in {*inputs, *made_of} if inputs.get(k) != made_of.get(k))
    if changed:
        return f"it is of run {run}, with another {', '.join(changed)}"
    return "" if run in names else f"it is of run {run}"
