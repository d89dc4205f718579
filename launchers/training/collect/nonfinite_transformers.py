"""End a run with transformers in which a gradient or loss is NaN or Inf, before weights change.

ms-swift 4.4.1 skips such a step without an error (``swift/trainers/mixin.py: _fix_grad_norm_nan``),
and transformers logs the mean of earlier losses for it (``logging_nan_inf_filter``). The trainer
has the norm of the gradients on the host in every step.
"""

import math
from typing import Any

import torch
from swift.callbacks.base import TrainerCallback

from launchers.training.collect.batch_rows import CURRENT, error


class NonFiniteCallback(TrainerCallback):  # type: ignore[misc]
    """Records the rows of each step, and judges the norm of its gradients."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wrap the functions by which the trainer reads batches, computes a loss and the norm."""
        trainer = self.trainer
        self.state = state
        CURRENT.decode = trainer.template.tokenizer.decode
        CURRENT.watch(kwargs.get("train_dataloader"))
        self.loader, trainer.get_train_dataloader = trainer.get_train_dataloader, self.resumed
        self.samples, trainer.get_batch_samples = trainer.get_batch_samples, self.read
        self.loss, trainer.training_step = trainer.training_step, self.measured
        self.norm, trainer._get_grad_norm = trainer._get_grad_norm, self.judged

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget batches that the epoch before drew and did not train."""
        CURRENT.drawn.clear()

    def resumed(self, *args: Any, **kwargs: Any) -> Any:
        """Make the loader with which a resumed run ends its epoch, and watch it."""
        loader = self.loader(*args, **kwargs)
        CURRENT.watch(loader)
        return loader

    def read(self, *args: Any, **kwargs: Any) -> Any:
        """Read the batches of a step."""
        found = self.samples(*args, **kwargs)
        CURRENT.begin(self.state.global_step + 1, len(found[0]))
        return found

    def measured(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss of a microbatch and keep it."""
        loss = self.loss(*args, **kwargs)
        CURRENT.losses.append(loss.detach())
        return loss

    def judged(self, *args: Any, **kwargs: Any) -> Any:
        """Return the norm of the gradients.

        A scaler of fp16 losses makes gradients overflow by design and skips those steps, so that
        the losses are judged instead, as they are where the trainer has no norm.

        Raises:
            LaunchError: DATA, a value is not finite; it names the rows. Or the first are all 0.
        """
        norm = self.norm(*args, **kwargs)
        if norm is None or _scales(self.trainer):
            what, seen = "the loss", [float(each) for each in CURRENT.losses]
        else:
            what, seen = "the norm of the gradients", [_unmasked(float(norm))]
            if CURRENT.zeros and (seen[0] or _has_gradients(self.trainer)):
                CURRENT.zeros.judge(seen[0], self.state.max_steps)
        bad = [each for each in seen if not math.isfinite(each)]
        if bad:
            rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
            raise error(rank, what, bad[0])
        return norm

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Forget a step whose gradients are finite."""
        CURRENT.end()


def _unmasked(norm: float) -> float:
    """Return a norm; DeepSpeed gives -1 for one that is NaN or Inf and changes the weights.

    Source: ``deepspeed/runtime/utils.py: mask_nan_or_inf_with_val_inplace``. Its engine has made
    the step by then (``accelerate/utils/deepspeed.py: DeepSpeedEngineWrapper.backward``), so that
    the run must end before it saves.
    """
    return math.nan if norm < 0 else norm


def _has_gradients(trainer: Any) -> bool:
    """Return whether there are gradients to have a norm.

    LOMO and layer-wise optimizers step in the backward pass and free them: their norm is always 0.
    """
    if getattr(trainer, "is_deepspeed_enabled", False):  # its engine keeps them
        return True
    return any(weight.grad is not None for weight in trainer.model.parameters())


def _scales(trainer: Any) -> bool:
    """Return whether losses are scaled; ms-swift sets ``fp16`` for a model in fp32, too."""
    if getattr(trainer, "is_deepspeed_enabled", False):
        return bool(trainer.args.fp16)
    return getattr(trainer.accelerator, "scaler", None) is not None
