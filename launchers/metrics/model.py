"""The arithmetic of the model that a trainer trains, from the trainer's own arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from launchers import logs
from launchers.config import gpu_models
from launchers.exits import LaunchError
from launchers.plan import flops
from launchers.plan import model_config as shape
from launchers.plan.layout import Layout
from launchers.plan.model_config import Shape
from launchers.plan.training_job import Training

_NO_REFERENCE = (None, "rm", "gkd")
"""``rlhf_type`` without a forward pass of a reference: ms-swift ``rlhf_mixin.py``."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a token costs, and on what."""

    shape: Shape
    training: Training
    card: str | None = None
    """Name in ``cards``; None for a GPU that is not listed."""

    @property
    def peak_tflops(self) -> float | None:
        """Return the card's dense bf16 peak."""
        return None if self.card is None else gpu_models.CARDS[self.card].peak_tflops

    def tflop(self, s_eff: float) -> tuple[float, float]:
        """Return the TFLOP of a token: of the model, and what the GPU does."""
        model = flops.model(self.shape, self.training, s_eff)
        return model / 1e12, flops.hardware(self.shape, self.training, s_eff) / 1e12


def training(args: object, world: int, *, precomputed: bool) -> Training:
    """Return the job of a trainer.

    Args:
        args: ms-swift's Megatron arguments; ``recompute_granularity`` none is None there.
        world: processes.
        precomputed: whether the reference's log-probabilities were taken before training.
    """
    kind = getattr(args, "rlhf_type", None)
    vpp = getattr(args, "virtual_pipeline_model_parallel_size", None)
    pp = getattr(args, "pipeline_model_parallel_size", 1)
    return Training(
        layout=Layout(nodes=1, gpus_per_node=world, pp=pp, vpp=vpp),
        tuner="full" if getattr(args, "tuner_type", "full") == "full" else "lora",
        compares=kind not in _NO_REFERENCE and not precomputed,
        recompute=getattr(args, "recompute_granularity", None) or "none",
        recompute_method=getattr(args, "recompute_method", None) or "",
        recompute_num_layers=getattr(args, "recompute_num_layers", None) or 1,
    )


def model(args: object, world: int, gpu: str, *, precomputed: bool) -> Model:
    """Return the model that is trained.

    Args:
        args: ms-swift's arguments, with ``model_dir``.
        world: processes.
        gpu: the GPU's name, as its driver says it; empty without one.
        precomputed: whether the reference's log-probabilities were taken before training.

    Raises:
        LaunchError: DATA for a config.json without the sizes.
        OSError, ValueError: it cannot be read, or more is computed than what is counted.
    """
    if getattr(args, "rlhf_type", None) == "kto" and getattr(args, "calculate_KL", False):
        raise ValueError("the two passes over KTO's KL rows are not counted")
    folder = Path(str(getattr(args, "model_dir", "")))
    sizes = shape.parse(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    card = gpu_models.seen(gpu)
    return Model(
        shape=sizes,
        training=training(args, world, precomputed=precomputed),
        card=None if card is None else card.name,
    )


def found(args: object, world: int, gpu: str, *, precomputed: bool) -> Model | None:
    """Return ``model``; None, and a warning, where its arithmetic is not known."""
    try:
        return model(args, world, gpu, precomputed=precomputed)
    except (LaunchError, OSError, ValueError) as error:
        logs.warning("metrics without FLOP/s", cause=error)
        return None


def capacity(args: object) -> int:
    """Return the tokens that the packs of a global step can hold; 0 without packing."""
    if not getattr(args, "packing", False):
        return 0
    length = getattr(args, "packing_length", None) or getattr(args, "max_length", None) or 0
    return int(length) * int(getattr(args, "global_batch_size", 0) or 0)
