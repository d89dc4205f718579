"""Write a row of ``metrics.jsonl`` for each optimizer step of ms-swift's transformers trainer.

A step lasts from the reading of its batches to ``on_step_end``. Sums over the ranks are read when
the trainer logs, which synchronises with the GPU anyway: rows of steps that are not logged are
written then, and on a GPU their seconds are those of the CPU. FLOP/s, memory and expert load are
not measured.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from swift.callbacks.base import TrainerCallback

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import step as metrics_step
from launchers.metrics import vector, writer
from launchers.metrics.power import PowerMeter
from launchers.metrics.rows import Row
from launchers.metrics.step import Clock
from launchers.metrics.vector import Places
from launchers.metrics.writer import Writer
from launchers.stop import finished
from launchers.training.collect import device as gpu

_MASKS = ("attention_mask", "completion_attention_mask")
"""Keys of the masks in ms-swift's batches; the second is KTO's, whose KL rows are not trained."""
_NO_VALUES = ("learning_rate", "grad_norm", "epoch", "memory(GiB)", "train_speed(s/it)")
"""Logged numbers that have columns of their own or do not describe the step."""


@dataclass(kw_only=True)
class Pending:
    """A step whose row is written at the trainer's next log."""

    clock: Clock
    summed: torch.Tensor
    logged: dict[str, float] = field(default_factory=dict)


class MetricsCallback(TrainerCallback):  # type: ignore[misc]
    """Measures each step on every rank; process zero of the world writes."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wrap the function by which the trainer reads its batches."""
        spread = dist.is_initialized()
        self.rank = int(dist.get_rank()) if spread else 0
        self.places = Places(world=dist.get_world_size() if spread else 1)
        self.attempt = writer.attempt(os.environ)
        self.pending: list[Pending] = []
        self.power = PowerMeter(gpu.uuid())
        self.ended: float | None = None
        self.cost: float | None = None
        self.writer = None
        if state.is_world_process_zero:
            self.writer = Writer(writer.path(os.environ, args.output_dir), self._row)
        self.inner, self.trainer.get_batch_samples = self.trainer.get_batch_samples, self.read

    def read(self, *args: Any, **kwargs: Any) -> Any:
        """Read the batches of a step, and count their tokens."""
        self.began = time.perf_counter()
        found = self.inner(*args, **kwargs)
        waited = time.perf_counter() - self.began
        self.summed = torch.zeros(self.places.size, dtype=torch.float64, device=self.args.device)
        mine = self.summed[self.places.rank(self.rank)]
        for batch in found[0]:
            mine[:3] += self._counted(batch)
        mine[3], mine[-1] = waited, self.power.watts()
        return found

    def _counted(self, batch: Any) -> torch.Tensor:
        """Return tokens, sum of squared lengths and sequences; zeros without a 2-D mask."""
        masks = [batch.get(name) for name in _MASKS] if isinstance(batch, dict) else []
        mask = next((mask for mask in masks if mask is not None), None)
        shared = getattr(self.trainer.template, "sequence_parallel_size", 1) > 1
        if mask is None or mask.dim() != 2 or shared:  # packed, or split over ranks
            return torch.zeros(3, dtype=torch.float64, device=self.args.device)
        lengths = mask.sum(dim=1, dtype=torch.float64)
        counted = torch.stack([lengths.sum(), lengths.square().sum(), (lengths > 0).sum()])
        return counted.to(self.args.device)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Sum over the ranks; the row is written at the next log."""
        now = time.perf_counter()
        if dist.is_initialized():
            dist.all_reduce(self.summed)
        clock = Clock(
            step=state.global_step,
            total=state.max_steps,
            attempt=self.attempt,
            time=time.time(),
            seconds=now - self.began,
            other_seconds=0.0 if self.ended is None else self.began - self.ended,
            metrics_seconds=self.cost,
        )
        if self.writer is not None:
            self.pending.append(Pending(clock=clock, summed=self.summed))
        self.ended, self.cost = now, time.perf_counter() - now

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Write an evaluation, or the steps up to the last one with the trainer's numbers."""
        if self.writer is not None and logs and (values := evaluations.numbers(logs)):
            self.writer.put(self._evaluated(state, float(logs.get("eval_runtime", 0.0)), values))
        if self.pending and logs and "loss" in logs:
            numbers = {name: float(v) for name, v in logs.items() if isinstance(v, int | float)}
            self.pending[-1].logged = numbers
            self._write()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the steps after the last log."""
        self._write()
        self.trainer.get_batch_samples = self.inner
        if self.writer is not None:
            self.writer.close()
        finished.note_trained()

    def _evaluated(self, state: Any, seconds: float, values: dict[str, float]) -> Evaluation:
        return Evaluation(
            step=state.global_step,
            total=state.max_steps,
            attempt=self.attempt,
            time=time.time(),
            seconds=seconds,
            values=values,
        )

    def _write(self) -> None:
        for pending in self.pending:
            if self.writer is not None:
                self.writer.put(pending)
        self.pending = []

    def _row(self, pending: Pending) -> Row:
        values = {n: v for n, v in pending.logged.items() if n not in _NO_VALUES}
        return metrics_step.row(
            pending.clock,
            world=self.places.world,
            shared=vector.shared(pending.summed.tolist(), self.places),
            values=values,
            grad_norm=pending.logged.get("grad_norm"),
            learning_rate=pending.logged.get("learning_rate"),
        )
