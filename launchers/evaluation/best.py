"""Tell ms-swift's Megatron trainer the best checkpoint of earlier attempts.

Its state begins empty in each process (``swift/megatron/trainers/utils.py``, ``TrainerState``):
after a resume the first evaluated checkpoint would count as the best, and the best one of earlier
attempts would be rotated away.
"""

import os
from pathlib import Path
from typing import Any

import torch.distributed as dist

from launchers.evaluation.evaluations import Evaluation, Measure
from launchers.metrics import reader, writer
from launchers.storage import checkpoint


def best_saved(metrics: Path, checkpoints: Path, measure: Measure) -> Evaluation | None:
    """Return the best evaluation of a checkpoint that is still complete; None without one."""
    saved = {each.step for each in checkpoint.complete(checkpoints)}
    return measure.best(reader.read(metrics, Evaluation), saved)


def restore(trainer: Any) -> None:
    """Set the best checkpoint in the trainer's state, on all ranks what rank 0 reads."""
    args, state = trainer.args, trainer.state
    if args.metric_for_best_model is None:
        return
    sent: list[Evaluation | None] = [None]
    if dist.get_rank() == 0:
        measure = Measure(name=args.metric_for_best_model, greater=bool(args.greater_is_better))
        metrics = writer.path(os.environ, args.output_dir)
        sent = [best_saved(metrics, Path(args.output_dir), measure)]
    dist.broadcast_object_list(sent)
    if (found := sent[0]) is None:
        return
    state.best_metric = found.values[args.metric_for_best_model]
    state.best_global_step = found.step
    state.best_model_checkpoint = os.path.join(  # noqa: PTH118 - as upstream writes and compares it
        args.output_dir, f"checkpoint-{found.step}"
    )
