"""``plan.json``: the predicted memory, time and disk of a run, written by rank 0."""

import json
from collections.abc import Mapping
from pathlib import Path

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.flags.command_line import Inputs
from launchers.plan import model_config
from launchers.plan.document import document
from launchers.plan.model_config import ModelConfig
from launchers.plan.plan import Plan, build, job_of
from launchers.storage import disk
from launchers.system import lookup
from launchers.system.atomic_file import replace


def record(
    settings: Settings,
    recipe: Recipe,
    inputs: Inputs,
    env: Mapping[str, str],
    seen: ModelConfig | None = None,
) -> int | None:
    """Write the plan; any error is only logged, since a run does not depend on its plan.

    Called before the download and after it, when the model's sizes are known for certain; the
    file is written again only if its content changes.
    A model on the workspace takes precedence over ``seen``, the sizes from its hub.

    Returns:
        Bytes that checkpoints will still take; None when they are not known.
    """
    try:
        plan = planned(settings, recipe, inputs, env, seen)
        _write(settings.launch.work.plan, json.dumps(document(plan), indent=1) + "\n", plan)
        return remaining_bytes(plan, settings.launch.work.checkpoints)
    except Exception as error:
        logs.warning("plan not written", cause=repr(error))
        return None


def _write(path: Path, text: str, plan: Plan) -> None:
    """Write the file unless it already has this content."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, text)
    logs.info("plan written", path=path, **summary(plan))


def remaining_bytes(plan: Plan, checkpoints: Path) -> int | None:
    """Return the bytes that checkpoints will still take, less those of earlier attempts."""
    wanted = plan.footprint
    if wanted is None or wanted.checkpoints is None:
        return None
    return max(0, wanted.checkpoints - disk.held(checkpoints))


def planned(
    settings: Settings,
    recipe: Recipe,
    inputs: Inputs,
    env: Mapping[str, str],
    seen: ModelConfig | None = None,
) -> Plan:
    """Build this run's plan, with the model's sizes from the workspace, otherwise ``seen``."""
    config = inputs.model / "config.json"
    found, where = read_sizes(config)
    if found is None and seen is not None:
        found, where = seen, f"config.json of {recipe.model}"
    return build(job_of(settings, recipe, env, model_config=found, model_config_source=where))


def read_sizes(config: Path) -> tuple[ModelConfig | None, str]:
    """Read the model's sizes with their source; None with the reason when that fails.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    data = lookup.data(config)
    if data is None:
        return None, f"{config} does not exist yet"
    try:
        return model_config.parse_config(json.loads(data.decode())), str(config)
    except Exception as error:
        return None, f"{config}: {error}"


def summary(plan: Plan) -> dict[str, object]:
    """Return the fields of the log event of a plan."""
    fields: dict[str, object] = {}
    if plan.memory is not None:
        fields["gib_per_gpu"] = round(plan.memory.total, 1)
    if plan.speed is not None:
        fields["step_seconds"] = round(plan.speed.step_seconds, 1)
    return fields | {f"no_{part}": why for part, why in plan.unknown.items()}
