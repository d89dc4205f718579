"""Loaded into ms-swift's Megatron trainer: measures the pass over the reference by rounds.

``PROBE`` names the folder. ``pass-<rank>.jsonl`` has a row of each round: seconds since the end of
the round before, those of them in which the loader was awaited, micro-batches, and real tokens of
the ranks that keep results. Its first and last row are the seconds from the start of the pass to
the first round's, and from the last round to the end of the pass. Within the round ``TRACED`` three
parts are profiled on all ranks, so that no rank waits for one that is slowed: ``SPANS``. The first
only warms the profiler up, ``kernels-pass-<rank>.json`` has the sums of the second, and the third
is a trace of all operators, ``trace-pass.json.gz`` of rank 0, with the host's waits in
``waits-pass-<rank>.json``.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu

from launchers.reference import forward_pass
from launchers.reference.run_store import Opened
from tests.bench.speed import kernels

TRACED = 2
"""The round that is profiled, from 0."""
SPANS = ((0, 2), (2, 8), (8, 11))
"""First micro-batch of each part of it, and the one after its last."""
_pass, _forward = forward_pass._pass, forward_pass.forward


class Rounds:
    def __init__(self) -> None:
        self.folder, self.rank = Path(os.environ["PROBE"]), dist.get_rank()
        self.keeps = mpu.is_pipeline_last_stage() and mpu.get_tensor_model_parallel_rank() == 0
        self.number, self.waited = 0, 0.0
        self.profiler: Any = None
        self.mark = time.monotonic()

    def write(self, **row: Any) -> None:
        """Add a row with the seconds since the row before."""
        torch.cuda.synchronize()
        now = time.monotonic()
        row = {"rank": self.rank, "world": dist.get_world_size(), **row}
        with (self.folder / f"pass-{self.rank}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**row, "seconds": round(now - self.mark, 5)}) + "\n")
        self.mark = time.monotonic()

    def fed(self, batch: Iterable[Any]) -> Iterator[Any]:
        """Yield a round's micro-batches; add the time in which they are awaited."""
        source = iter(batch)
        for number in range(10**9):
            if self.number == TRACED:
                self.profile(number)
            begun = time.monotonic()
            each = next(source, None)
            self.waited += time.monotonic() - begun
            if each is None:
                return
            yield each

    def profile(self, number: int) -> None:
        """Start or end the profiler before a micro-batch of the traced round."""
        begins, ends = ([span[at] for span in SPANS] for at in (0, 1))
        if number in ends:
            self.finish(ends.index(number))
        if number in begins:
            kinds = torch.profiler.ProfilerActivity
            activities = [kinds.CPU, kinds.CUDA] if number == begins[-1] else [kinds.CUDA]
            torch.cuda.synchronize()
            self.profiler = torch.profiler.profile(activities=activities)
            self.profiler.__enter__()

    def finish(self, part: int) -> None:
        """End the profiler of a part, and write what it has seen."""
        profiler, self.profiler = self.profiler, None
        torch.cuda.synchronize()
        profiler.__exit__(None, None, None)
        if part == 1:
            found = {"rank": self.rank, "microbatches": SPANS[1][1] - SPANS[1][0]}
            found |= kernels.summary(kernels.seen(profiler))
            (self.folder / f"kernels-pass-{self.rank}.json").write_text(json.dumps(found))
        elif part == 2:
            found = {"rank": self.rank, "microbatches": SPANS[2][1] - SPANS[2][0]}
            found |= {"waits": kernels.waits(kernels.seen(profiler, on_gpu=False))}
            (self.folder / f"waits-pass-{self.rank}.json").write_text(json.dumps(found))
            if self.rank == 0:
                profiler.export_chrome_trace(str(self.folder / "trace-pass.json.gz"))


def measured_pass(trainer: Any, datasets: list[Any], opened: Opened) -> Opened:
    rounds = Rounds()

    def forward(trainer: Any, batch: Iterable[Any], counts: list[bool]) -> Any:
        if rounds.number == 0:
            rounds.write(part="start")
        found = _forward(trainer, rounds.fed(batch), counts)
        if rounds.profiler is not None:  # a short round
            rounds.finish(0)
        taken = zip(found[0], counts, strict=True)
        tokens = sum(micro.tokens for micro, is_new in taken if is_new)
        rounds.write(
            part="round",
            microbatches=len(counts),
            tokens=tokens if rounds.keeps else 0,
            data_seconds=round(rounds.waited, 5),
            traced=rounds.number == TRACED,
            reserved=torch.cuda.max_memory_reserved(),
        )
        rounds.number, rounds.waited = rounds.number + 1, 0.0
        return found

    forward_pass.forward = forward
    try:
        found = _pass(trainer, datasets, opened)
    finally:
        forward_pass.forward = _forward
    rounds.write(part="end")
    return found


forward_pass._pass = measured_pass
