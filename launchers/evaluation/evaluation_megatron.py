"""Evaluate Megatron's policy on all held-out rows, also before the first step.

ms-swift 4.4.1 (``swift/megatron/trainers/base.py``) reads ``eval_iters`` whole global batches from
an endless iterator. Fewer held-out packs are then read several times, more packs make each
evaluation begin where the one before has ended, so that evaluations differ by their rows; a pair
counts by the pack it is in; and nothing is evaluated before the first step. Here an evaluation
reads every held-out row once, in the same order, and averages DPO's numbers over the pairs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu
from swift.megatron.arguments import MegatronArguments
from swift.megatron.trainers import base
from swift.megatron.trainers.base import BaseMegatronTrainer
from swift.megatron.trainers.batch_sampler import MegatronPretrainingSampler

from launchers.evaluation import best
from launchers.evaluation.rounds import HeldOut, in_parts, microbatches
from launchers.flags.features import EVALUATE_VARIABLE

_init_iters = MegatronArguments.init_iters
_setup = BaseMegatronTrainer.setup_training
_prepare = BaseMegatronTrainer._prepare_data_iterator
_evaluate = BaseMegatronTrainer.evaluate
_get_schedule = base.get_forward_backward_func
PART_ROUNDS = 4
"""Microbatches of a part of an evaluation, per stage of the pipeline: it fills and drains once in
each part, which costs at most a quarter of it."""


def init_iters(self: Any, train_dataset: Any, val_dataset: Any) -> None:
    """Compute steps as upstream does, and the microbatches of an evaluation.

    Raises:
        LaunchError: DATA for too few held-out rows.
    """
    given = self.eval_iters
    _init_iters(self, train_dataset, val_dataset)
    if val_dataset is None or given == 0:
        return
    interleaves = self.virtual_pipeline_model_parallel_size is not None
    self.held_out_microbatches = microbatches(
        len(val_dataset),
        micro=self.micro_batch_size,
        replicas=mpu.get_data_parallel_world_size(),
        most=given * self.num_microbatches if given > 0 else None,
        multiple=self.pipeline_model_parallel_size if interleaves else 1,
    )


def prepare_data_iterator(
    self: Any, train_dataset: Any, val_dataset: Any = None, use_origin_cyclic: bool = False
) -> tuple[Any, HeldOut | None]:
    """Return upstream's iterator of the training rows, and one that each evaluation restarts."""
    train, _ = _prepare(self, train_dataset, None, use_origin_cyclic)
    self.held_out_rows = val_dataset  # read by ``probe``
    if val_dataset is None or not self.args.eval_iters:
        return train, None
    sampler = MegatronPretrainingSampler(
        total_samples=len(val_dataset),
        consumed_samples=0,
        micro_batch_size=self.args.micro_batch_size,
        data_parallel_rank=mpu.get_data_parallel_rank(),
        data_parallel_size=mpu.get_data_parallel_world_size(),
    )
    loader = self._create_dataloader(val_dataset, sampler)
    loader.generator = torch.Generator()  # the training's random state stays as without evaluation
    return train, HeldOut(loader)


def setup_training(self: Any, train_dataset: Any, val_dataset: Any) -> Any:
    """Prepare training as upstream does; evaluate before the first step of a run.

    A run that resumes evaluates its checkpoint if it was stopped before that had ended.
    """
    made = _setup(self, train_dataset, val_dataset)
    if not self.args.eval_iters:
        return made
    if self.state.iteration:
        best.restore(self)
    if self.state.iteration and os.environ.get(EVALUATE_VARIABLE) != "1":
        return made
    self.evaluate(made[1])
    for model in self.wrapped_models:
        model.train()
    return made


def evaluate(self: Any, val_data_iterator: Any) -> dict[str, Any]:
    """Evaluate as upstream does, on each held-out row once."""
    args = self.args
    several = isinstance(val_data_iterator, list)  # of a virtual pipeline
    held_out: list[HeldOut] = val_data_iterator if several else [val_data_iterator]
    for each in held_out:
        each.restart()
    usual = args.eval_iters, args.num_microbatches
    args.eval_iters, args.num_microbatches = 1, args.held_out_microbatches
    is_dpo = getattr(args, "rlhf_type", None) == "dpo"
    by_pack = is_dpo and not getattr(self, "sums_metrics", False)  # of equal pair weights
    try:
        stages = args.pipeline_model_parallel_size
        base.get_forward_backward_func = lambda: in_parts(
            _get_schedule(), PART_ROUNDS * stages if stages > 1 else 1, self.callbacks
        )
        with averaging_pairs(self) if by_pack else nullcontext():
            found: dict[str, Any] = _evaluate(self, val_data_iterator)
    finally:
        base.get_forward_backward_func = _get_schedule
        args.eval_iters, args.num_microbatches = usual
        for each in held_out:
            each.stop()
    return found


@contextmanager
def averaging_pairs(trainer: Any) -> Iterator[None]:
    """Let DPO's trainer average its numbers over pairs instead of packs and ranks.

    Each number becomes a sum and a count, which upstream adds up over the microbatches
    (``_aggregated_metrics``) and divides (``_log_callback``).
    """
    inner, pairs = trainer.loss_func, 0

    def loss_func(output: Any, *, labels: Any, packed_seq_params: Any, **given: Any) -> Any:
        nonlocal pairs
        texts = labels if packed_seq_params is None else packed_seq_params.seq_lens
        pairs = texts.shape[0] // 2
        return inner(output, labels=labels, packed_seq_params=packed_seq_params, **given)

    def summed(metric: dict[str, Any]) -> dict[str, Any]:
        values = torch.stack([value.float() for value in metric.values()])
        both = torch.cat([values * pairs, values.new_tensor([pairs])])
        dist.all_reduce(both, group=mpu.get_data_parallel_group())
        return {name: torch.stack([both[i], both[-1]]) for i, name in enumerate(metric)}

    trainer.loss_func, trainer._all_reduce_metric = loss_func, summed
    try:
        yield
    finally:
        del trainer.loss_func, trainer._all_reduce_metric


def install() -> None:
    """Replace the trainer's evaluation and the iterator of its rows."""
    MegatronArguments.init_iters = init_iters
    BaseMegatronTrainer.setup_training = setup_training
    BaseMegatronTrainer._prepare_data_iterator = prepare_data_iterator
    BaseMegatronTrainer.evaluate = evaluate
