"""Loaded into ms-swift's Megatron trainer together with the probe: applies variant after variant.

``ABLATION`` holds the segments (``ablation/steps.py``), ``ABLATION_BUSES`` the PCI addresses of the
host's GPUs, ``PROBE`` the folder. Before the first step of a segment the model is switched, unused
memory is given back and its peaks are reset; seconds, tokens and memory are the probe's.
``ablation-<rank>.jsonl`` says what could not be switched and what a profiler saw.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swift.megatron.callbacks.base import MegatronCallback
from swift.megatron.callbacks.mapping import megatron_callbacks_map

from tests.gpu.ablation import kernels as ablation_kernels
from tests.gpu.ablation import pin as ablation_pin
from tests.gpu.ablation import steps
from tests.gpu.ablation.plan import Segment
from tests.gpu.ablation.switch import Switch

CORES = os.sched_getaffinity(0)


class AblationCallback(MegatronCallback):  # type: ignore[misc]
    """Switches this rank's model."""

    def on_train_begin(self) -> None:
        """Look at the model as it was built."""
        self.segments = {each.first: each for each in steps.parse(os.environ["ABLATION"])}
        self.now: Segment = self.segments[1]
        self.rank, self.profiler = dist.get_rank(), None
        self.folder = Path(os.environ["PROBE"])
        wrapped = self.trainer.wrapped_models
        groups = [
            group
            for model in wrapped
            for kind in ("bucket_groups", "expert_parallel_bucket_groups")
            for group in getattr(model, kind, [])
        ]
        self.switch = Switch(
            modules=[each for model in self.trainer.unwrapped_models for each in model.modules()],
            config=self.trainer.config,
            ddp_configs=[
                each.ddp_config for each in (*wrapped, *groups) if hasattr(each, "ddp_config")
            ],
            matmul=torch.backends.cuda.matmul,
            pin=pin,
            choose_attention=choose_attention,
        )

    def on_step_begin(self) -> None:
        """Enter a segment before its first step, and start a profiler where one is asked for."""
        step = self.state.iteration + 1
        if step in self.segments:
            self.enter(self.segments[step])
        if self.profiles(step):
            torch.cuda.synchronize()
            self.profiler = self.started()

    def enter(self, segment: Segment) -> None:
        """Switch the model; report what it cannot be switched to, which stays as it was built."""
        self.now = segment
        try:
            self.switch.to(segment.state)
        except ValueError as error:
            self.write(kind="refused", why=str(error))
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def profiles(self, step: int) -> bool:
        """Tell whether a step runs under a profiler on this rank.

        Kernels are profiled on all ranks, so that none waits for one that is slowed; already in the
        warm-up step, because the profiler's own start takes seconds once, and not the same on all.
        """
        if self.now.role == "trace":
            return step == self.now.last and self.rank == 0
        return self.now.role == "profile"

    def started(self) -> Any:
        """Return a profiler that runs."""
        kinds = torch.profiler.ProfilerActivity
        with_cpu = [kinds.CPU] if self.now.role == "trace" else []
        profiler = torch.profiler.profile(activities=[*with_cpu, kinds.CUDA])
        profiler.__enter__()
        return profiler

    def on_step_end(self) -> None:
        """Write what the profiler saw of the step."""
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        torch.cuda.synchronize()
        profiler.__exit__(None, None, None)
        if self.state.iteration < self.now.last:  # the warm-up
            return
        if self.now.role == "trace":
            path = self.folder / f"trace-{self.now.name.replace('/', '_')}.json.gz"
            profiler.export_chrome_trace(str(path))
            self.write(kind="trace", file=path.name, bytes=path.stat().st_size)
        else:
            self.write(kind="profile", **ablation_kernels.summary(kernels(profiler)))

    def write(self, **row: Any) -> None:
        """Add a line about the segment."""
        row = {"name": self.now.name, "role": self.now.role, "rank": self.rank, **row}
        with (self.folder / f"ablation-{self.rank}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


def kernels(profiler: Any) -> list[ablation_kernels.Kernel]:
    """List what ran on the GPU under a profiler."""
    return [
        ablation_kernels.Kernel(event.name(), event.start_ns(), event.duration_ns())
        for event in profiler.profiler.kineto_results.events()
        if "CUDA" in str(event.device_type())
    ]


def pin(kind: str) -> None:
    """Bind this rank's threads to cores near its GPU; ``none``: to those that it began with."""
    if kind == "none":
        ablation_pin.bind(CORES)
        return
    buses = os.environ["ABLATION_BUSES"].split(",")
    nodes = [ablation_pin.near(bus, CORES) for bus in buses]
    ablation_pin.bind(ablation_pin.part(kind, int(os.environ["LOCAL_RANK"]), nodes))


def choose_attention() -> None:
    """Make Transformer Engine forget which attention it chose for data like the last ones."""
    from transformer_engine.pytorch.attention.dot_product_attention import _attention_backends

    _attention_backends["attention_params"] = None


megatron_callbacks_map["ablation"] = AblationCallback
