"""Divide the losses of an epoch's last accumulation window by the microbatches that it has.

If the microbatches of an epoch are not a multiple of ``gradient_accumulation_steps``, the last
window has fewer. The losses of ms-swift's trainers for preferences are divided by the configured
number all the same (``swift/rlhf_trainers/dpo_trainer.py:compute_loss``, also ``rlhf_mixin.py`` and
``reward_trainer.py``): with 2 microbatches of 4 the gradients are halved. ms-swift pull request
10084 (4.6.0) corrects other trainers only.
"""

from typing import Any

from transformers.trainer import Trainer

_get_batch_samples = Trainer.get_batch_samples
_training_step = Trainer.training_step


def get_batch_samples(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Read the microbatches of a window as upstream does, and note their number."""
    found = _get_batch_samples(self, *args, **kwargs)
    self.dpo_microbatches = len(found[0])
    return found


def training_step(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a microbatch; meanwhile ``gradient_accumulation_steps`` is the window's own number.

    A model that does not accept keyword arguments of the loss is left to transformers, which
    divides by the window's number itself (4.55 and later), and so is GRPO.
    """
    if not self.model_accepts_loss_kwargs:
        return _training_step(self, *args, **kwargs)
    configured = self.args.gradient_accumulation_steps
    self.args.gradient_accumulation_steps = self.dpo_microbatches
    try:
        return _training_step(self, *args, **kwargs)
    finally:
        self.args.gradient_accumulation_steps = configured


def install() -> None:
    """Replace how a trainer reads the microbatches of a window, and how it runs one of them."""
    Trainer.get_batch_samples = get_batch_samples
    Trainer.training_step = training_step
