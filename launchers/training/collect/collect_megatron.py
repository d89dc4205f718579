"""Write a row of ``metrics.jsonl`` for each optimizer step of ms-swift's Megatron trainer.

Nothing here synchronises with the GPU. A step's seconds are read on the CPU between
``on_step_begin`` and ``on_step_end``: ms-swift's ``train_step`` reads the gradient norm from the
GPU after the optimizer has run (``reduce_max_stat_across_model_parallel_group``), so that the GPU
has finished the step by then. Tokens are counted on the CPU, in the iterator that the trainer reads
from. Sums over the ranks use one all-reduce, whose result is copied to pinned memory and read one
step later, or when the trainer logs, which synchronises anyway.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu
from swift.megatron.callbacks.base import MegatronCallback

from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.metrics import model as metrics_model
from launchers.metrics import step as metrics_step
from launchers.metrics import vector, writer
from launchers.metrics.power import PowerMeter
from launchers.metrics.rows import Row
from launchers.metrics.step import Clock
from launchers.metrics.vector import Places
from launchers.metrics.writer import Writer
from launchers.stop import finished
from launchers.training.collect import device as gpu
from launchers.training.collect import reading
from launchers.training.collect.expert_rows import ExpertRows
from launchers.training.collect.reading import Tally

_GROUPS = ("tensor_model_parallel", "context_parallel", "pipeline_model_parallel")
"""Groups whose ranks read the same data: only the first rank of each counts."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The numbers of a step; its tensors are valid once the step's copies have ended."""

    clock: Clock
    summed: torch.Tensor
    grad_norm: float | None
    learning_rate: float | None
    names: list[str]
    means: torch.Tensor


class MetricsCallback(MegatronCallback):  # type: ignore[misc]
    """Measures each step on every rank; the last rank writes, like ms-swift's own log."""

    def on_train_begin(self) -> None:
        """Wrap the trainer's step, hook into its experts, allocate the buffers."""
        trainer, config = self.trainer, self.trainer.config
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.counts = all(getattr(mpu, f"get_{name}_rank")() == 0 for name in _GROUPS)
        self.experts, self.tally = ExpertRows(trainer.unwrapped_models), Tally()
        experts = config.num_moe_experts or 0
        layers = config.num_layers if experts else 0
        self.places = Places(world=self.world, layers=layers, experts=experts)
        self.host, self.device = (
            gpu.host_buffer(self.places.size),
            gpu.device_buffer(self.places.size),
        )
        self.event, self.returned, self.power = gpu.new_event(), None, PowerMeter(gpu.uuid())
        self.sent: Sent | None = None
        self.began = time.perf_counter()
        self.ended: float | None = None
        self.cost: float | None = None
        self.attempt = writer.attempt(os.environ)
        self.writer = self._writer() if self.rank == self.world - 1 else None
        dist.all_reduce(self.device)  # creates the communicator while GPU memory is free
        self.inner, trainer.train_step = trainer.train_step, self.train_step

    def train_step(self, train_data_iterator: Any) -> Any:
        """Run the trainer's own step on a counted iterator, and keep its result."""
        self.returned = self.inner(reading.counted(train_data_iterator, self.tally))
        return self.returned

    def on_step_begin(self) -> None:
        """Start timing the step."""
        self.began = time.perf_counter()

    def on_step_end(self) -> None:
        """Start the reduction of this step's numbers, and write the step before."""
        now = time.perf_counter()
        if self.event is not None:
            self.event.synchronize()  # of the step before, which has long ended
        self._write()
        clock = Clock(
            step=self.state.iteration,
            total=self.args.train_iters,
            attempt=self.attempt,
            time=time.time(),
            seconds=now - self.began,
            other_seconds=0.0 if self.ended is None else self.began - self.ended,
            metrics_seconds=self.cost,
        )
        self._send(clock)
        self.ended, self.cost = now, time.perf_counter() - now

    def _send(self, clock: Clock) -> None:
        """Sum over the ranks and copy the result back, both asynchronously."""
        tally, host = self.tally, self.host
        counted = (tally.tokens, tally.squares, tally.sequences) if self.counts else (0, 0, 0)
        host.zero_()
        measured = (tally.seconds, *gpu.peaks(), self.power.watts())
        host.numpy()[self.places.rank(self.rank)] = (*counted, *measured)
        tally.clear()
        self.device.copy_(host, non_blocking=True)
        self.experts.drain(self.device, self.places)
        dist.all_reduce(self.device)
        if self.writer is not None:
            metrics, grad_norm, _ = self.returned or ((), None, None)
            names, means = gpu.means(metrics)
            self.sent = Sent(
                clock=clock,
                summed=gpu.fetch(self.device),
                grad_norm=None if grad_norm is None else float(grad_norm),
                learning_rate=gpu.learning_rate(self.trainer.optimizer),
                names=names,
                means=gpu.fetch(means),
            )
        self.returned = None
        if self.event is not None:
            self.event.record()

    def _write(self) -> None:
        """Pass the last step to the writer, if its copies have ended."""
        if self.writer is None or self.sent is None:
            return
        if self.event is None or self.event.query():
            self.writer.put(self.sent)
            self.sent = None

    def on_log(self, logs: Any) -> None:
        """Write the last step, or an evaluation.

        The trainer has just synchronised with the GPU for its log.
        """
        self._write()
        if self.writer is not None and (values := evaluations.numbers(logs)):
            self.writer.put(self._evaluated(values))

    def on_eval_begin(self) -> None:
        """Write before a long pause between steps, and start timing it."""
        self._write()
        self.evaluation_began = time.perf_counter()

    def _evaluated(self, values: dict[str, float]) -> Evaluation:
        return Evaluation(
            step=self.state.iteration,
            total=self.args.train_iters,
            attempt=self.attempt,
            time=time.time(),
            seconds=time.perf_counter() - self.evaluation_began,
            values=values,
        )

    def on_save(self, output_dir: str) -> None:
        """Write the last step that the checkpoint contains."""
        self._write()

    def on_train_end(self) -> None:
        """Write the last step."""
        if self.event is not None:
            self.event.synchronize()
        self._write()
        self.trainer.train_step = self.inner
        if self.writer is not None:
            self.writer.close()
        finished.note_trained()

    def _writer(self) -> Writer[Sent]:
        capacity, places, name = metrics_model.capacity(self.args), self.places, gpu.name()

        @cache
        def model() -> metrics_model.Model | None:  # at the first row: a plugin may set it late
            precomputed = getattr(self.trainer, "reference_is_precomputed", False)
            return metrics_model.found(self.args, self.world, name, precomputed=precomputed)

        def finish(sent: Sent) -> Row:
            return metrics_step.row(
                sent.clock,
                world=places.world,
                shared=vector.shared(sent.summed.tolist(), places),
                model=model(),
                capacity=capacity,
                grad_norm=sent.grad_norm,
                learning_rate=sent.learning_rate,
                values=dict(zip(sent.names, sent.means.tolist(), strict=True)),
            )

        return Writer(writer.path(os.environ, self.args.output_dir), finish, self._show)

    def _show(self, row: Row) -> None:
        """Add the speed to the trainer's own TensorBoard curves, if TensorBoard is on."""
        for callback in self.trainer.callbacks:
            board = getattr(callback, "writer", None)
            if type(callback).__name__ == "TensorboardCallback" and board is not None:
                for name, value in metrics_step.curves(row).items():
                    board.add_scalar(name, value, row.step)
