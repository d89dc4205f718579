"""Bytes that a run writes to the workspace: model, converted model, checkpoints."""

from dataclasses import dataclass

from launchers.config.recipe import KEPT_BY_TIME, SAVE_STEPS, Recipe
from launchers.plan import memory
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import IN_PEFT, whole
from launchers.plan.training_job import Arguments, Training

WEIGHT = 2
"""Bytes of a bf16 parameter, in the downloaded model, the export and adapters:
megatron-core's ``Float16Module`` wraps both (``swift/megatron/utils/megatron_lm_utils.py``)."""
WRITE_BYTES_PER_SECOND = 0.8e9
"""Assumed speed of a save, of all ranks together: measured on one local disk, where 52 GB took 65 s
(4 x H200, 5 layers of Qwen3-30B-A3B). Parallel file systems are faster, NFS may be slower."""
COPY_BYTES_PER_SECOND = 5e9
"""Assumed speed of the copy of one GPU's part of a checkpoint to pinned host memory. Measured: 6.1
to 8.3 on hosts of H100s and H200s; A100s were not measured."""
SAVE_SHARE = 0.02
"""Largest part of the time for which saves may stop training."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Bytes on the workspace and the interval of checkpoints."""

    model: int
    """The downloaded model, in Hugging Face format."""
    converted: int
    """Its copy in Megatron format; 0 if the convert stage is skipped."""
    checkpoint: int
    """One checkpoint; of an adapter, without the merged model. Without ``exported``."""
    exported: int
    """Safetensors that only the last checkpoint has; 0 where each one has them."""
    gathered: int
    """Safetensors that each save writes while training waits; 0 where only the last one has them.
    Without the merged model."""
    merges: str
    """``Training.merges``; ``never`` if all parameters are trained."""
    every: int | None
    """Steps between checkpoints; None where they are saved by time or by epoch."""
    kept: int | None
    """Number of checkpoints kept; None for all."""
    is_exact: bool
    """Whether a resume restores the optimizer's state."""
    copied: int
    """Bytes that one GPU copies to host memory in a save; 0 where a save waits for the write."""

    @property
    def merged(self) -> int:
        """Return the bytes of a merged model; 0 without merging."""
        return 0 if self.merges == "never" else self.model

    @property
    def saved(self) -> int:
        """Return the bytes of one save, without the merged model of the last one."""
        return self.checkpoint + (self.merged if self.merges == "every" else 0)

    @property
    def save_seconds(self) -> float:
        """Return the seconds of one save, at ``WRITE_BYTES_PER_SECOND``."""
        return self.saved / WRITE_BYTES_PER_SECOND

    @property
    def hold_seconds(self) -> float:
        """Return the seconds for which a save stops training.

        Safetensors and a merged model of each checkpoint are written while training waits.
        """
        if not self.copied:
            return self.save_seconds
        waits = self.gathered + (self.merged if self.merges == "every" else 0)
        return self.copied / COPY_BYTES_PER_SECOND + waits / WRITE_BYTES_PER_SECOND

    @property
    def checkpoints(self) -> int | None:
        """Return the bytes of all checkpoints while the last is written; None if all are kept.

        ms-swift removes the oldest checkpoint and its merged model after the new one is complete
        (``_rotate_checkpoints``). The export consists of links.
        """
        if self.kept is None:
            return None
        once = (self.merged if self.merges == "last" else 0) + self.exported
        return (self.kept + 1) * self.saved + once

    @property
    def needed(self) -> int | None:
        """Return the bytes needed while the last checkpoint is written; None if all are kept."""
        if self.checkpoints is None:
            return None
        return self.model + self.converted + self.checkpoints


def predict_footprint(
    recipe: Recipe, training: Training, model: ModelConfig, *, convert: bool
) -> Footprint:
    """Return the footprint of a run on the Megatron backend.

    Raises:
        LaunchError: CONFIG, naming a flag that is not a number.
    """
    weights = WEIGHT * model.parameters
    (written, state), once = _checkpoint(training, model), recipe.writes_safetensors_once
    in_background = recipe.saves_in_background
    return Footprint(
        model=weights,
        converted=weights if convert else 0,
        checkpoint=state if once else written + state,
        exported=written if once else 0,
        gathered=0 if once else written,
        merges="never" if training.tuner == "full" else training.merges,
        every=save_every(recipe),
        kept=kept(recipe),
        is_exact=training.saves_optimizer,
        copied=state // training.layout.world if in_background else 0,
    )


def save_every(recipe: Recipe) -> int | None:
    """Return the steps between two checkpoints; None if they are saved by time or by epoch.

    Raises:
        LaunchError: CONFIG when ``save_steps`` is not a number.
    """
    a = Arguments(args=recipe.args)
    if recipe.saves_by_time or a.word("save_strategy", "steps") == "epoch":
        return None
    return a.size("save_steps", SAVE_STEPS)


def kept(recipe: Recipe) -> int | None:
    """Return the number of checkpoints that are kept; None for all.

    Raises:
        LaunchError: CONFIG when ``save_total_limit`` is not a number.
    """
    given = Arguments(args=recipe.args).optional("save_total_limit")
    return KEPT_BY_TIME if given is None and recipe.saves_by_time else given


def save_interval(limit: float, *, hold: float, write: float, step: float) -> float:
    """Return the seconds of training between two saves by time.

    An interruption just before a checkpoint is complete loses the interval, the stops of both
    saves, the write and up to a step that the save waited for. ``SAVE_SHARE`` counts more than
    ``limit``: where both cannot hold, more work may be lost.
    All in seconds: an interruption may lose ``limit``, ``hold`` and ``write`` are of a save.

    >>> save_interval(900, hold=2, write=60, step=26), save_interval(900, hold=30, write=0, step=26)
    (810, 1470.0)
    """
    return max(limit - 2 * hold - write - step, hold * (1 - SAVE_SHARE) / SAVE_SHARE, write)


def _checkpoint(training: Training, model: ModelConfig) -> tuple[int, int]:
    """Return the bytes of one checkpoint's safetensors, without a merged model, and of its state.

    The state is empty without the optimizer; with it, it has also Megatron's own weights:
    ``swift/megatron/trainers/base.py`` ``save_checkpoint`` passes the model on unless
    ``save_safetensors`` and ``no_save_optim`` are both set. For LoRA both hold the adapter only
    (``_filter_adapter_state_dict``; ``save_weights`` with ``peft_format``).
    """
    is_full = training.tuner == "full"
    own = model.parameters if is_full else whole(model, training)
    written = own if is_full else whole(model, training, IN_PEFT)
    bytes_each = WEIGHT + round(memory.optimizer_saved(training))
    state = bytes_each * own if training.saves_optimizer else 0
    return WEIGHT * written, state
