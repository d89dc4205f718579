"""Settings that all runs of one bench share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.gpu_models import GpuModel
from launchers.plan.model_config import ModelConfig
from tests.bench.speed import figures

PLUGINS = Path(__file__).parents[1] / "plugins"
"""Folder of the plugins. ms-swift puts a plugin's folder first on Python's path, so it may contain
nothing else: a ``profile.py`` there would replace the standard library's ``profile``."""


TRACED = 3
"""Steps that ``plugins/swift_trace.py`` profiles, after the measured ones."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    home: Path
    """Folder of models, data and runs on the host."""
    model: Path
    data: Path
    model_config: ModelConfig
    gpu: GpuModel
    gpus: int
    first_gpu: int = 0
    """Number of the first of them on the host."""
    steps: int
    """Measured steps, after the warm-up."""
    warm_up: int = figures.WARM_UP
    traced: bool = False
    """True if more steps run under a profiler."""
    passes: bool = False
    """True if the reference is computed anew, also where a store has it, and measured by rounds."""

    @property
    def own_gpus(self) -> range:
        """Return the numbers of the GPUs on the host."""
        return range(self.first_gpu, self.first_gpu + self.gpus)

    @property
    def counted(self) -> int:
        """Return the steps that are not traced, including the warm-up."""
        return self.steps + self.warm_up

    @property
    def iterations(self) -> int:
        return self.counted + TRACED * self.traced

    @property
    def own_flags(self) -> dict[str, Any]:
        """Return the flags that override every profile; None removes one."""
        return own_flags(self.iterations)


def own_flags(iterations: int) -> dict[str, Any]:
    """Return the flags of a measured run that override every profile."""
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


SHORT_PACKS = {"max_length": 4096, "packing_length": 8192, "global_batch_size": 8}
"""Flags of runs whose steps take seconds."""


def resumable_flags(iterations: int, saves: int) -> dict[str, Any]:
    """Return the flags of a run that saves every ``saves`` steps and resumes exactly."""
    return own_flags(iterations) | {
        "save_steps": saves,
        "save_total_limit": 2,
        "no_save_optim": False,
        "no_save_rng": False,
    }
