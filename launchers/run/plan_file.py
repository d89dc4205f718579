"""``plan.json``: what rank 0 expected of the run, for whoever compares it with what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.inputs.paths import inputs_of
from launchers.plan import model_config
from launchers.plan.document import document
from launchers.plan.job import job_of
from launchers.plan.model_config import Shape
from launchers.plan.plan import Plan, build
from launchers.storage import disk
from launchers.storage.checkpoint import replace


def record(
    settings: Settings, recipe: Recipe, env: Mapping[str, str], seen: Shape | None = None
) -> int | None:
    """Write the plan; whatever goes wrong is a warning, since a run does not depend on it.

    Called before the download and after it, as the model's sizes may be known only then; it is
    written again only if something has changed.

    Args:
        settings: the launcher's settings.
        recipe: the run's recipe.
        env: the pod's environment.
        seen: the model's sizes, from its hub; what is on the workspace comes before it.

    Returns:
        Bytes that checkpoints will still take; None where that is not known.
    """
    try:
        plan = planned(settings, recipe, env, seen)
        _write(settings.work.plan, json.dumps(document(plan), indent=1) + "\n", plan)
        return room(plan, settings.work.checkpoints)
    except Exception as error:
        logs.warning("plan not written", cause=repr(error))
        return None


def _write(path: Path, text: str, plan: Plan) -> None:
    """Write the file unless it says so already: a model that is here is known from the start."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, text)
    logs.info("plan written", path=path, **summary(plan))


def room(plan: Plan, checkpoints: Path) -> int | None:
    """Return the bytes that checkpoints will still take; what an earlier attempt left counts."""
    wanted = plan.footprint
    if wanted is None or wanted.checkpoints is None:
        return None
    return max(0, wanted.checkpoints - disk.size(checkpoints))


def planned(
    settings: Settings, recipe: Recipe, env: Mapping[str, str], seen: Shape | None = None
) -> Plan:
    """Build this run's plan from what is on the workspace now, or was seen of the model."""
    config = inputs_of(settings, recipe, settings.work).model / "config.json"
    found, where = read(config)
    if found is None and seen is not None:
        found, where = seen, f"config.json of {recipe.model}"
    return build(job_of(settings, recipe, env, shape=found, shape_source=where))


def read(config: Path) -> tuple[Shape | None, str]:
    """Read the model's sizes; None and the reason when they can't be."""
    if not config.is_file():
        return None, f"{config} is not there yet"
    try:
        return model_config.parse(json.loads(config.read_text(encoding="utf-8"))), str(config)
    except Exception as error:
        return None, f"{config}: {error}"


def summary(plan: Plan) -> dict[str, object]:
    """Return what the log's line says of a plan."""
    fields: dict[str, object] = {}
    if plan.memory is not None:
        fields["gib_per_gpu"] = round(plan.memory.total, 1)
    if plan.speed is not None:
        fields["step_seconds"] = round(plan.speed.step_seconds, 1)
    return fields | {f"no_{part}": why for part, why in plan.unknown.items()}
