"""The sides of ``gradients.yaml``, validated before GPU time is spent."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.learning import plan as learning_plan
from tests.bench.speed import profiles as bench_profiles
from tests.bench.speed.profiles import Profile
from tests.bench.speed.shared import Bench

FILE = Path(__file__).with_name("gradients.yaml")
SEED = 1
STEPS = 1
HIDING = {"moe_expert_capacity_factor", "moe_router_force_load_balancing"}
"""Flags that drop tokens or force balanced routing."""


def read(gpus: int, only: Sequence[str] = (), file: Path = FILE) -> list[Profile]:
    """Return the profiles of the sides."""
    runs = learning_plan.read([SEED], gpus, only, file=file)
    return [replace(run.profile, name=run.side) for run in runs]


def refuse(bench: Bench, sides: Sequence[Profile]) -> None:
    """Refuse sides that cannot run, drop tokens or force balanced routing."""
    for side in sides:
        parsed = bench_profiles.recipe(side.values(), bench.own_flags)
        bench_profiles.refuse(parsed, bench.model_config, bench.gpus)
        extra = parsed.args.get("megatron_extra_kwargs", {})
        given = {*parsed.args, *(extra if isinstance(extra, dict) else ())}
        if wrong := given & HIDING:
            raise ValueError(f"{side.name}: {', '.join(wrong)} would hide what is to be shown")
        bench_profiles.refuse_kept(side, parsed)
