"""The sides of ``gradients.yaml``, validated before GPU time is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.gpu.bench import profiles as bench_profiles
from tests.gpu.bench.shared import Bench
from tests.gpu.learning import plan as learning_plan
from tests.gpu.variants import plan as variants_plan
from tests.gpu.variants.plan import Variant

FILE = Path(__file__).with_name("gradients.yaml")
SEED = 1
STEPS = 1


def read(gpus: int, only: Sequence[str] = (), file: Path = FILE) -> list[Variant]:
    """Return the sides.

    Args:
        gpus: number of GPUs of the host.
        only: their names; all by default.
        file: like ``gradients.yaml``.

    Raises:
        ValueError: a side, a key, a feature or the number of GPUs is unknown.
    """
    return [
        Variant(profile=replace(run.profile, name=run.side))
        for run in learning_plan.read([SEED], gpus, only, file=file)
    ]


def refuse(bench: Bench, sides: Sequence[Variant]) -> None:
    """Refuse sides that cannot run, drop tokens or force balanced routing.

    Raises:
        LaunchError: a side's flags.
        ValueError: its layout does not fit, or it needs a feature that it leaves out.
    """
    variants_plan.refuse(bench, sides)
    for side in sides:
        parsed = bench_profiles.recipe(side.profile.values(), bench.own_flags)
        bench_profiles.refuse_kept(side.profile, parsed)
