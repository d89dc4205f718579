"""Predictions for each profile of values/hardware, on each GPU that it is for."""

from __future__ import annotations

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
    """One profile on one card."""

    gpus: int
    card: str
    file: Path
    """Added after ``BASE``, unless it is that."""
    plan: Plan

    @property
    def files(self) -> list[Path]:
        """Return the values files in their order."""
        return [BASE] if self.file == BASE else [BASE, self.file]


def predictions() -> list[Predicted]:
    """Return all profiles by card, then by GPUs.

    Raises:
        Problem: the chart refuses one.
    """
    order = [card for cards in GPU_MODELS.values() for card in cards]
    found = [_predict(file, card) for file, card in _profiles()]
    return sorted(found, key=lambda each: (order.index(each.card), each.gpus))


def _profiles() -> Iterator[tuple[Path, str]]:
    for card in GPU_MODELS["80g"]:
        yield BASE, card
    for file in sorted(HARDWARE.glob("*.yaml")):
        for card in GPU_MODELS[file.stem.partition("-")[0]]:
            yield file, card


def _predict(file: Path, card: str) -> Predicted:
    files = [BASE] if file == BASE else [BASE, file]
    request = Request(run="figures", files=files, gpu=card, pairs=PAIRS)
    found = read_submission(template(request.run, files))
    plan = planning.build(job_of(found, request))
    return Predicted(gpus=found.nodes * found.gpus_per_node, card=card, file=file, plan=plan)
