"""What all runs of one go of the bench share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.gpu_models import Card
from launchers.plan.model_config import Shape
from tests.gpu.bench import figures

PLUGINS = Path(__file__).parents[1] / "plugins"
"""What is loaded into the trainer. ms-swift puts a plugin's folder first on Python's path, so that
nothing else may lie there: a ``profile.py`` beside a plugin would be the trainer's ``profile``."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What a run loads beside the probe."""

    plugin: Path
    callback: str
    flags: Mapping[str, Any]
    """Over the bench's own; None drops one."""
    variables: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all runs of one go share."""

    home: Path
    """Folder of models, data and runs on the host."""
    model: Path
    data: Path
    shape: Shape
    card: Card
    gpus: int
    steps: int
    """Steps that are measured, after the warm-up."""
    warm_up: int = figures.WARM_UP
    beside: Beside | None = None

    @property
    def iterations(self) -> int:
        """Return the steps that are run."""
        return self.steps + self.warm_up

    @property
    def own_flags(self) -> dict[str, Any]:
        """Return the flags that are set over every profile's; None drops one."""
        return own_flags(self.iterations) | dict(self.beside.flags if self.beside else {})


def own_flags(iterations: int) -> dict[str, Any]:
    """Return the flags that a measured run of so many steps sets over every profile's."""
    return {
        "train_iters": iterations,
        "save_steps": 1_000_000,
        "save_total_limit": None,
        "no_save_optim": True,
        "no_save_rng": True,
        "logging_steps": 1,
        "split_dataset_ratio": 0,
        "ddp_timeout": 600,
        "load_from_cache_file": True,
    }
