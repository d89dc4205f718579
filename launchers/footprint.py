"""What a run writes to the workspace: bytes of the model, of a checkpoint, of all of it."""

from __future__ import annotations

from dataclasses import dataclass

from launchers.arguments import Arguments
from launchers.recipe import Recipe
from launchers.shape import Shape

WEIGHT = 2
"""Bytes of a bf16 parameter: the model on the hub, and the export."""
OPTIMIZER = 12
"""Bytes that Megatron's checkpoint holds for the optimizer of one parameter: the fp32 master and
both moments, whatever their type in memory (megatron-core ``distrib_optimizer.py``,
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
    every: int | None
    """Steps between two checkpoints; None when it is once an epoch."""
    kept: int | None
    """Checkpoints that stay; None for all."""
    is_exact: bool
    """Whether a resume continues with the optimizer's state."""

    @property
    def needed(self) -> int | None:
        """Return the bytes needed while a checkpoint is written; None when all are kept.

        ms-swift removes the oldest after the new one is whole (``_rotate_checkpoints``). The
        export is made of links.
        """
        if self.kept is None:
            return None
        return self.model + self.converted + (self.kept + 1) * self.checkpoint


def of(recipe: Recipe, shape: Shape, *, convert: bool) -> Footprint:
    """Return what a full-parameter run of the Megatron backend writes.

    A checkpoint is the safetensors, and with the optimizer also Megatron's own weights:
    ``swift/megatron/trainers/base.py`` ``save_checkpoint`` passes the model on unless
    ``save_safetensors`` and ``no_save_optim`` are both set.

    Raises:
        LaunchError: CONFIG, naming the flag that is no number.
    """
    a = Arguments(args=recipe.args)
    weights = WEIGHT * shape.parameters
    is_exact = not a.flag("no_save_optim", False)
    state = weights + OPTIMIZER * shape.parameters if is_exact else 0
    by_epoch = a.word("save_strategy", "steps") == "epoch"
    return Footprint(
        model=weights,
        converted=weights if convert else 0,
        checkpoint=weights + state,
        every=None if by_epoch else a.size("save_steps", SAVE_STEPS),
        kept=a.optional("save_total_limit"),
        is_exact=is_exact,
    )
