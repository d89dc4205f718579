"""Give all pairs of a step the same weight in packed DPO on transformers (``recipe.pairWeights``).

ms-swift 4.4.1 (``swift/rlhf_trainers/dpo_trainer.py``) takes the mean over the pairs of a batch;
it and transformers (``Trainer.training_step``) divide by the batches of a step, and the processes'
gradients are averaged: a pair's weight depends on the pack that it is in. In the last step of an
epoch, which may have fewer batches, ms-swift still divides by ``gradient_accumulation_steps``
(ms-swift issue 10052). ms-swift 4.6.0 weighs the pairs equally, but not the terms of ``rpo_alpha``
and ``sft``. Here a batch's loss is ``P / N`` times the sum over its pairs, with P processes and N
pairs of the step on all of them: the step minimises the mean over its N pairs, also with fewer
batches, with either release. N needs one all-reduce a step, when its batches are read. The
auxiliary loss of the experts keeps upstream's scale. ``rpo_alpha`` is as in
``packs/pair_weights.py``. Nothing here waits for the GPU. The logged loss is the step's; the other
metrics, and those of an evaluation, remain upstream's means over packs.
"""

from typing import Any

import torch
from swift.rlhf_trainers.dpo_trainer import DPOTrainer

_get_batch_samples = DPOTrainer.get_batch_samples
_concatenated_forward = DPOTrainer.concatenated_forward
_compute_loss = DPOTrainer.compute_loss


def texts_of(batch: Any) -> Any:
    """Return the text that each token of a packed batch belongs to, from 0, [tokens].

    The chosen texts come first (``swift/template/base.py: _rlhf_data_collator``).
    """
    positions = batch.get("text_position_ids")
    if positions is None:
        positions = batch["position_ids"]
    return (positions[0] == 0).cumsum(0) - 1


def pairs_of(batch: Any) -> Any:
    """Return the pairs of a packed batch, a tensor on its device."""
    return (texts_of(batch)[-1] + 1) // 2


def get_batch_samples(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Read the batches of a step as upstream does, and count its pairs on all processes."""
    batches, items = _get_batch_samples(self, *args, **kwargs)
    own = torch.zeros((), dtype=torch.long, device=self.accelerator.device)
    for batch in batches:
        own += pairs_of(batch).to(own.device, non_blocking=True)
    self.step_pairs = self.accelerator.reduce(own, reduction="sum")
    return batches, items


def concatenated_forward(self: Any, model: Any, batch: Any, is_ref_model: bool = False) -> Any:
    """Run upstream's forward pass; ``nll_loss`` is each chosen answer's own mean, [pairs]."""
    output = _concatenated_forward(self, model, batch, is_ref_model)
    if not is_ref_model:
        self.batch_pairs, self.aux_loss = len(output["chosen_logps"]), output.get("aux_loss", 0.0)
        texts, counted = texts_of(batch), batch["labels"][0] != -100
        tokens = torch.zeros(2 * self.batch_pairs, device=texts.device)
        tokens.index_add_(0, texts, counted.float())
        chosen = tokens.chunk(2)[0].clamp(min=1)
        output["nll_loss"] = -output["chosen_logps"] / chosen
    return output


def compute_loss(
    self: Any, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
) -> Any:
    """Return the loss of a batch, scaled so that a step's is the mean over its pairs.

    Without ``num_items_in_batch`` upstream's is the mean over the batch's pairs, not divided.
    """
    loss, metrics = _compute_loss(self, model, inputs, True, None)
    aux = self.aux_loss * self.aux_loss_coef if self.aux_loss_enabled else 0.0
    pairs = (loss - aux) * self.batch_pairs * self.accelerator.num_processes / self.step_pairs
    if num_items_in_batch is not None and self.model_accepts_loss_kwargs:
        loss = pairs + aux / self.args.gradient_accumulation_steps  # transformers will not divide
    else:
        loss = pairs * self.current_gradient_accumulation_steps + aux
    return (loss, metrics) if return_outputs else loss


def install() -> None:
    """Replace the trainer's loss, and how it reads the batches of a step."""
    DPOTrainer.get_batch_samples = get_batch_samples
    DPOTrainer.concatenated_forward = concatenated_forward
    DPOTrainer.compute_loss = compute_loss
