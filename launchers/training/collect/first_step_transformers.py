"""End a run of DPO with transformers whose policy is not the reference at the first step.

The trainer has the rewards and log-probabilities of each microbatch on the host anyway, as means
over all processes; the losses are read once, after the first step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from swift.callbacks.base import TrainerCallback

from launchers.metrics.first_step import Loss, Reference, first_step, has_dropout, judge


class FirstStepCallback(TrainerCallback):  # type: ignore[misc]
    """Judges the first step of a run that does not resume."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wrap the function that computes the loss of a microbatch, if the run begins now."""
        self.losses: list[torch.Tensor] = []
        self.logged: list[dict[str, float]] = []
        resumes = bool(args.resume_from_checkpoint) or state.global_step > 0
        self.is_judged = not resumes and not has_dropout(self.trainer.model.config)
        if self.is_judged:
            self.inner = self.trainer.get_batch_loss_metrics
            self.trainer.get_batch_loss_metrics = self.measured

    def measured(self, model: Any, batch: Any, train_eval: str = "train", **named: Any) -> Any:
        """Compute a microbatch's loss and metrics, and keep both.

        ms-swift 4.6.0 adds ``pair_loss_scale``, by which the mean of the losses is that over pairs.
        """
        loss, metrics = self.inner(model, batch, train_eval, **named)
        if train_eval == "train":
            self.losses.append(loss.detach())
            self.logged.append(metrics)
        return loss, metrics

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Judge the first step, then give the trainer its own function back.

        Raises:
            LaunchError: CONFIG on every process, the policy is not the reference.
        """
        if not self.is_judged:
            return
        self.is_judged, self.trainer.get_batch_loss_metrics = False, self.inner
        loss = torch.stack(self.losses).double().mean()
        if dist.is_initialized():  # as the trainer's other numbers, a mean over the processes
            dist.all_reduce(loss)
            loss /= dist.get_world_size()
        values = {
            name: sum(each[name] for each in self.logged) / len(self.logged)
            for name in self.logged[0]
        }
        step = first_step(values | {"loss": loss.item()})
        error = judge(step, _loss(self.trainer), _reference(self.trainer))
        if error is not None:
            raise error


def _loss(trainer: Any) -> Loss:
    types = trainer.loss_type
    return Loss(
        beta=trainer.beta,
        types=tuple(types) if isinstance(types, list) else (types,),
        weights=tuple(getattr(trainer, "loss_weights", None) or ()),
        smoothing=trainer.label_smoothing,
        rpo_alpha=trainer.args.rpo_alpha or 0.0,
        aux_coefficient=trainer.aux_loss_coef if trainer.aux_loss_enabled else 0.0,
    )


def _reference(trainer: Any) -> Reference:
    if trainer.ref_model is not None:
        return "model"
    return "second adapter" if trainer.ref_adapter_name else "adapter"
