"""Predictions for each profile of values/hardware, on each GPU that it is for."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launchers.plan import plan as planning
from launchers.plan.plan import Plan
from scripts.helm import ROOT, template
from scripts.plan.command import Request, job_of
from scripts.plan.submission import read_submission

BASE = ROOT / "values" / "a100-2node.yaml"
HARDWARE = ROOT / "values" / "hardware"
GPU_MODELS = {"80g": ("a100-80g", "a800-80g", "h100-80g"), "h200": ("h200",), "b200": ("b200",)}
"""Prefix of a file's name to the GPUs that it is for."""
PAIRS = 40_000
"""Assumed pairs of 2,048 tokens; they determine the length of a run, not its speed."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One profile on one GPU model."""

    gpus: int
    gpu_model: str
    file: Path
    """Added after ``BASE``, unless it is that."""
    plan: Plan

    @property
    def files(self) -> list[Path]:
        """Return the values files in their order."""
        return [BASE] if self.file == BASE else [BASE, self.file]


@functools.cache
def predictions() -> tuple[Predicted, ...]:
    """Return all profiles by GPU model, then by GPUs.

    Raises:
        Problem: the chart refuses one.
    """
    order = [gpu_model for models in GPU_MODELS.values() for gpu_model in models]
    found = [_predict(file, gpu_model) for file, gpu_model in profiles()]
    return tuple(sorted(found, key=lambda each: (order.index(each.gpu_model), each.gpus)))


def profiles() -> Iterator[tuple[Path, str]]:
    """Yield the values file and GPU model of each prediction."""
    for gpu_model in GPU_MODELS["80g"]:
        yield BASE, gpu_model
    for file in sorted(HARDWARE.glob("*.yaml")):
        for gpu_model in GPU_MODELS[file.stem.partition("-")[0]]:
            yield file, gpu_model


def _predict(file: Path, gpu_model: str) -> Predicted:
    files = [BASE] if file == BASE else [BASE, file]
    request = Request(run="figures", files=files, gpu=gpu_model, pairs=PAIRS)
    found = read_submission(template(request.run, files))
    plan = planning.build(job_of(found, request))
    return Predicted(
        gpus=found.nodes * found.gpus_per_node, gpu_model=gpu_model, file=file, plan=plan
    )
