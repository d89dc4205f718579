"""Loaded into ms-swift's Megatron trainer together with the probe: profiles the last three steps.

``TRACE_FROM`` is the first of them. In the first and the second the kernels of all ranks are
profiled, so that no rank waits for one that is slowed; the first only warms the profiler up, whose
start takes seconds, and not the same on all ranks. ``kernels-<rank>.json`` has the sums of the
second. The third is a trace with all operators of rank 0, ``trace.json.gz``.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

from tests.bench.speed import kernels


class TraceCallback(MegatronCallback):  # type: ignore[misc]
    def on_train_begin(self) -> None:
        self.first, self.rank = int(os.environ["TRACE_FROM"]), dist.get_rank()
        self.folder = Path(os.environ["PROBE"])
        self.profiler: Any = None

    def on_step_begin(self) -> None:
        number = self.state.iteration + 1 - self.first
        if number in (0, 1) or (number == 2 and self.rank == 0):
            kinds = torch.profiler.ProfilerActivity
            activities = [kinds.CPU, kinds.CUDA] if number == 2 else [kinds.CUDA]
            torch.cuda.synchronize()
            self.profiler = torch.profiler.profile(activities=activities)
            self.profiler.__enter__()

    def on_step_end(self) -> None:
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        torch.cuda.synchronize()
        profiler.__exit__(None, None, None)
        number = self.state.iteration - self.first
        if number == 1:
            found = {"rank": self.rank, **kernels.summary(kernels.seen(profiler))}
            (self.folder / f"kernels-{self.rank}.json").write_text(json.dumps(found))
        elif number == 2:
            profiler.export_chrome_trace(str(self.folder / "trace.json.gz"))


megatron_callbacks_map["trace"] = TraceCallback
