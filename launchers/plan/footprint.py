"""What a run writes to the workspace: bytes of the model, of a checkpoint, of all of it."""

from __future__ import annotations

from dataclasses import dataclass

from launchers.config.recipe import Recipe
from launchers.plan.adapter import IN_PEFT, whole
from launchers.plan.arguments import Arguments
from launchers.plan.model_config import Shape
from launchers.plan.training_job import Training

WEIGHT = 2
"""Bytes of a bf16 parameter: the model on the hub, and the export. An adapter's are bf16 too:
megatron-core's ``Float16Module`` wraps both (``swift/megatron/utils/megatron_lm_utils.py``)."""
OPTIMIZER = 12
"""Bytes that Megatron's checkpoint holds for the optimizer of one trained parameter: the fp32
master and both moments, whatever their type in memory (megatron-core ``distrib_optimizer.py``,
``get_parameter_state_dp_zero`` and the sharded forms beside it)."""
SAVE_STEPS = 500
"""ms-swift's default of ``save_steps`` (``swift/megatron/arguments/megatron_args.py``)."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Bytes on the workspace, and how often a checkpoint is written."""

    model: int
    """The download, in Hugging Face format."""
    converted: int
    """Its Megatron copy; 0 when the convert stage is skipped."""
    checkpoint: int
    """Of an adapter: its own, without the model that it is merged into."""
    merges: str
    """``Training.merges``; ``never`` where all parameters are trained."""
    every: int | None
    """Steps between two checkpoints; None when it is once an epoch."""
    kept: int | None
    """Checkpoints that stay; None for all."""
    is_exact: bool
    """Whether a resume continues with the optimizer's state."""

    @property
    def merged(self) -> int:
        """Return the bytes of the model beside a checkpoint whose adapter is merged; 0 for none."""
        return 0 if self.merges == "never" else self.model

    @property
    def saved(self) -> int:
        """Return the bytes that one save writes, but for what the last one may write beside it."""
        return self.checkpoint + (self.merged if self.merges == "every" else 0)

    @property
    def checkpoints(self) -> int | None:
        """Return the bytes of all checkpoints while the last is written; None when all are kept.

        ms-swift removes the oldest, and the model beside it, after the new one is whole
        (``_rotate_checkpoints``). The export is made of links.
        """
        if self.kept is None:
            return None
        once = self.merged if self.merges == "last" else 0
        return (self.kept + 1) * self.saved + once

    @property
    def needed(self) -> int | None:
        """Return the bytes needed while the last checkpoint is written; None when all are kept."""
        if self.checkpoints is None:
            return None
        return self.model + self.converted + self.checkpoints


def of(recipe: Recipe, training: Training, shape: Shape, *, convert: bool) -> Footprint:
    """Return what a run of the Megatron backend writes.

    Args:
        recipe: with the flags of saving.
        training: the same recipe, parsed.
        shape: of the model.
        convert: whether the convert stage runs.

    Raises:
        LaunchError: CONFIG, naming the flag that is no number.
    """
    a = Arguments(args=recipe.args)
    weights = WEIGHT * shape.parameters
    by_epoch = a.word("save_strategy", "steps") == "epoch"
    return Footprint(
        model=weights,
        converted=weights if convert else 0,
        checkpoint=_checkpoint(training, shape),
        merges="never" if training.tuner == "full" else training.merges,
        every=None if by_epoch else a.size("save_steps", SAVE_STEPS),
        kept=a.optional("save_total_limit"),
        is_exact=training.saves_optimizer,
    )


def _checkpoint(training: Training, shape: Shape) -> int:
    """Return the bytes of one checkpoint, of an adapter without the model beside it.

    It is the safetensors, and with the optimizer also Megatron's own weights:
    ``swift/megatron/trainers/base.py`` ``save_checkpoint`` passes the model on unless
    ``save_safetensors`` and ``no_save_optim`` are both set. Of LoRA both hold the adapter only
    (``_filter_adapter_state_dict``; ``save_weights`` with ``peft_format``).
    """
    is_full = training.tuner == "full"
    own = shape.parameters if is_full else whole(shape, training)
    written = own if is_full else whole(shape, training, IN_PEFT)
    state = (WEIGHT + OPTIMIZER) * own if training.saves_optimizer else 0
    return WEIGHT * written + state
