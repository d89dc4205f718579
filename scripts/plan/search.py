"""The layouts that fit a cluster, ranked by predicted speed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import ceil

from launchers.config.gpu_models import Card
from launchers.plan import memory
from launchers.plan.layout import Layout
from launchers.plan.memory import Memory
from launchers.plan.model_config import Shape
from launchers.plan.plan import Job, speed_of
from launchers.plan.step_time import Speed
from launchers.plan.training_job import Training
from launchers.rules import table
from scripts.plan import args, candidates
from scripts.plan.args import Args
from scripts.plan.candidates import Way

TIGHT = 0.05
"""Share of the card that must stay free: the prediction's error."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A way to train that fits."""

    training: Training
    optimizer: str
    memory: Memory
    speed: Speed
    changes: Args
    """What differs from the recipe: ``recipe.args`` to write, None to drop."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A cluster to search on."""

    job: Job
    shape: Shape
    training: Training
    card: Card
    host_gib: float | None
    """Host memory of a pod; None for no limit."""
    gang: Mapping[str, str] = field(default_factory=dict)
    """Values beside the recipe that differ from the release's: ``nodes``, ``gpuModel``."""

    def layouts(self) -> list[Layout]:
        """Return all layouts that the sizes divide into."""
        sizes = {"nodes": self.job.nodes, "gpus_per_node": self.job.gpus_per_node}
        return candidates.layouts(self.shape, self.training, **sizes)

    @cached_property
    def possible(self) -> list[Layout]:
        """Layouts on which something may fit."""
        return [layout for layout in self.layouts() if self._may(layout)]

    def best(self, count: int) -> list[Found]:
        """Return the fastest layouts, the fastest first, each in its fastest way that fits.

        Of a way the most exact optimizer that fits is taken, also where bf16 gradients would save
        a little traffic.
        """
        return list(islice(self._fastest(), count))

    def why_none(self) -> str:
        """Return why no layout fits, and what to change."""
        found = replace(self, host_gib=None)._fastest()
        least = min((each.memory.host for each in found), default=None)
        if least is None:
            return "none fits: take more GPUs, or a larger card"
        return (
            f"none fits the {self.host_gib:.0f} GiB of a pod's host memory, the least needs "
            f"{least:.0f} (predicted): write --set resources.limits.memory={ceil(least)}Gi"
        )

    def _fastest(self) -> Iterator[Found]:
        """Yield from a heap of the ways by a time that each takes at least, or is known to take.

        A way that does not fit makes room for those that need less memory. They are never faster,
        so most ways are never predicted.
        """
        heap = [self._bound(way) for layout in self.possible for way in self._ways(layout)]
        heapq.heapify(heap)
        done: set[Layout] = set()
        while heap:
            _, order, way, found = heapq.heappop(heap)
            if way.layout in done:
                continue
            if found is not None:
                done.add(way.layout)
                yield found
            elif (fitting := self._exact(way)) is not None:
                heapq.heappush(heap, (fitting.speed.step_seconds, order, way, fitting))
            else:
                for smaller in way.smaller():
                    heapq.heappush(heap, self._bound(smaller))

    def _ways(self, layout: Layout) -> Iterator[Way]:
        """Yield the fastest way on a layout with each dispatcher."""
        recompute = candidates.recompute(self.shape.layers, layout.pp)
        for each in candidates.dispatchers(self.shape, self.training, layout):
            yield Way(layout=layout, dispatcher=each, recompute=recompute)

    def _exact(self, way: Way) -> Found | None:
        """Return a way with the most exact optimizer that fits."""
        tried = (self.fitting(n, way.training(self.training, f)) for n, f in way.optimizers)
        return next(filter(None, tried), None)

    def _bound(self, way: Way) -> tuple[float, tuple[int, ...], Way, Found | None]:
        """Return a way with the time of its last optimizer: the least traffic, so the fastest."""
        training = way.training(self.training, way.optimizers[-1][1])
        return self._speed(training).step_seconds, way.order, way, None

    def _may(self, layout: Layout) -> bool:
        """Tell whether the least that every way holds, the model's shares in bf16, fits.

        Weights, and where they are trained gradients and the reference: spread evenly.
        """
        dense = self.shape.dense_parameters / (layout.tp * layout.pp)
        experts = self.shape.expert_parameters / (layout.ep * layout.etp * layout.pp)
        copies = 1 + self.training.reference + (self.training.tuner == "full")
        return 2 * copies * (dense + experts) <= self.card.memory_gib * 2**30

    def fitting(self, name: str, training: Training) -> Found | None:
        """Return a way to train with the optimizer of that name; None where it does not fit."""
        used = memory.predict(self.shape, training)
        if used.total > (1 - TIGHT) * self.card.memory_gib or used.host > (
            self.host_gib or used.host
        ):
            return None
        wanted = args.flags(training)
        if self._is_broken(wanted):
            return None
        return Found(
            training=training,
            optimizer=name,
            memory=used,
            speed=self._speed(training),
            changes=args.changes(self.job.recipe, wanted),
        )

    def _speed(self, training: Training) -> Speed:
        return speed_of(self.job, self.shape, training, self.card)

    def left(self, found: Found) -> list[str]:
        """Return what is still wrong with the recipe when a layout is written into it."""
        return sorted(self._told & self._messages(args.flags(found.training)))

    def _is_broken(self, wanted: Args) -> bool:
        """Tell whether other flags break a rule that the recipe itself keeps."""
        return not self._told >= self._messages(wanted)

    @cached_property
    def _told(self) -> set[str]:
        return self._messages({})

    def _messages(self, wanted: Args) -> set[str]:
        job = self.job
        messages = table.check(
            args.merged(job.recipe, wanted).args,
            shape=self.shape,
            nodes=job.nodes,
            gpus_per_node=job.gpus_per_node,
            backend=job.recipe.backend,
            task=job.recipe.task,
            reference=job.recipe.reference,
        )
        return set(map(str, messages))
