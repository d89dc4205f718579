"""FLOP per token of the model in training, from the trainer's own arguments."""

import json
from dataclasses import dataclass
from pathlib import Path

from launchers import logs
from launchers.config import gpu_models
from launchers.exits import LaunchError
from launchers.plan import flops
from launchers.plan.layout import Layout
from launchers.plan.model_config import ModelConfig, parse_config
from launchers.plan.training_job import NO_REFERENCE, Training


@dataclass(frozen=True, kw_only=True)
class Model:
    """The cost of a token, and the GPU it is processed on."""

    model_config: ModelConfig
    training: Training
    gpu_model: str | None = None
    """Name in ``config/gpu_models.py``; None for a GPU that is not listed."""

    @property
    def peak_tflops(self) -> float | None:
        """Return the GPU's dense bf16 peak in TFLOP/s; None for an unknown GPU."""
        return None if self.gpu_model is None else gpu_models.GPU_MODELS[self.gpu_model].peak_tflops

    def tflop(self, s_eff: float) -> tuple[float, float]:
        """Return the TFLOP of a token: of the model, and including recomputation.

        ``s_eff``: sum of squared lengths over sum of lengths, in tokens.
        """
        model = flops.model_flops(self.model_config, self.training, s_eff)
        return model / 1e12, flops.hardware_flops(self.model_config, self.training, s_eff) / 1e12


def training(args: object, world: int, *, precomputed: bool) -> Training:
    """Return the planner's description of a trainer.

    ``precomputed``: the reference's log-probabilities were computed before training.
    """
    kind = getattr(args, "rlhf_type", None)
    vpp = getattr(args, "virtual_pipeline_model_parallel_size", None)
    pp = getattr(args, "pipeline_model_parallel_size", 1)
    return Training(
        layout=Layout(nodes=1, gpus_per_node=world, pp=pp, vpp=vpp),
        tuner="full" if getattr(args, "tuner_type", "full") == "full" else "lora",
        compares=kind is not None and kind not in NO_REFERENCE and not precomputed,
        recompute=getattr(args, "recompute_granularity", None) or "none",
        recompute_method=getattr(args, "recompute_method", None) or "",
        recompute_num_layers=getattr(args, "recompute_num_layers", None) or 1,
    )


def model(args: object, world: int, gpu: str, *, precomputed: bool) -> Model:
    """Return the model in training.

    ``gpu`` is the driver's name for it, empty without one; ``precomputed``: see ``training``.

    Raises:
        LaunchError: DATA for a config.json without the sizes.
        OSError, ValueError: it cannot be read, or the formulas do not cover the computation.
    """
    if getattr(args, "rlhf_type", None) == "kto" and getattr(args, "calculate_KL", False):
        raise ValueError("the two passes over KTO's KL rows are not counted")
    folder = Path(str(getattr(args, "model_dir", "")))
    sizes = parse_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    known = gpu_models.by_smi_name(gpu)
    return Model(
        model_config=sizes,
        training=training(args, world, precomputed=precomputed),
        gpu_model=None if known is None else known.name,
    )


def found(args: object, world: int, gpu: str, *, precomputed: bool) -> Model | None:
    """Return ``model``; None with a warning if its FLOP are not known."""
    try:
        return model(args, world, gpu, precomputed=precomputed)
    except (LaunchError, OSError, ValueError) as error:
        logs.warning("metrics without FLOP/s", cause=error)
        return None


def capacity(args: object) -> int:
    """Return the capacity of the packs of a global step in tokens; 0 without packing."""
    if not getattr(args, "packing", False):
        return 0
    length = getattr(args, "packing_length", None) or getattr(args, "max_length", None) or 0
    return int(length) * int(getattr(args, "global_batch_size", 0) or 0)
