"""End a run of Megatron DPO whose policy is not the reference at the first step.

It reads what the step has returned, once: the later steps are not touched. The ranks of the last
pipeline stage hold the same means over all replicas, so that all of them raise the same error,
before the step is logged or saved.
"""

from typing import Any

from swift.megatron.callbacks.base import MegatronCallback

from launchers.flags.first_step import same_adapters
from launchers.metrics.first_step import Loss, Reference, first_step, has_dropout, judge
from launchers.reference.policy import policy_is_reference
from launchers.training.collect import device as gpu


class FirstStepCallback(MegatronCallback):  # type: ignore[misc]
    """Judges the first step of a run that begins with the reference as its policy."""

    def on_train_begin(self) -> None:
        """Wrap the trainer's step if the run begins now."""
        self.metrics: Any = None
        begins = _begins(self.args, self.state.iteration)
        self.is_judged = begins and not has_dropout(self.trainer.config)
        if self.is_judged:
            self.inner, self.trainer.train_step = self.trainer.train_step, self.train_step

    def train_step(self, train_data_iterator: Any) -> Any:
        """Run the trainer's own step and keep what its microbatches report."""
        returned = self.inner(train_data_iterator)
        self.metrics = returned[0]
        return returned

    def on_step_end(self) -> None:
        """Judge the first step, then give the trainer its own step back.

        Raises:
            LaunchError: CONFIG, the policy is not the reference.
        """
        if not self.is_judged:
            return
        self.is_judged, self.trainer.train_step = False, self.inner
        names, means = gpu.means(self.metrics)
        values = dict(zip(names, means.tolist(), strict=True))
        if "rewards/margins" not in values:  # not the last pipeline stage
            return
        error = judge(first_step(values), _loss(self.args), _reference(self.trainer))
        if error is not None:
            raise error


def _begins(args: Any, iteration: int) -> bool:
    """Return whether the run begins with the weights of the reference.

    Dropout of an adapter that is not zero differs between policy and reference.
    """
    if getattr(args, "tuner_type", "full") != "full":
        is_equal = same_adapters(lambda name: getattr(args, name, None))
        return iteration == 0 and is_equal and not (_continues(args) and args.lora_dropout)
    return policy_is_reference(args, iteration)


def _loss(args: Any) -> Loss:
    """Return the loss: ms-swift 4.4.1 computes sigmoid for any ``loss_type``."""
    return Loss(beta=args.beta, smoothing=args.label_smoothing, rpo_alpha=args.rpo_alpha or 0.0)


def _reference(trainer: Any) -> Reference:
    if getattr(trainer, "reference_is_precomputed", False):
        source: Reference = trainer.reference_source
        return source
    if trainer.args.tuner_type == "full":
        return "model"
    return "second adapter" if _continues(trainer.args) else "adapter"


def _continues(args: Any) -> bool:
    """Return whether the reference is the adapter that training continues."""
    return bool(getattr(args, "ref_adapters", None) or getattr(args, "mcore_ref_adapter", None))
