"""The layouts that fit a cluster, ranked by predicted speed."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from math import ceil
from operator import itemgetter

from launchers.config.gpu_models import GpuModel
from launchers.plan import memory
from launchers.plan.layout import Layout
from launchers.plan.memory import Memory
from launchers.plan.model_config import ModelConfig
from launchers.plan.plan import Job, speed_of
from launchers.plan.step_time import Speed
from launchers.plan.training_job import Training
from launchers.rules import table
from launchers.units import GIB
from scripts.plan import candidates, recipe_args
from scripts.plan.candidates import OPTIMIZERS, Fields, Way, on
from scripts.plan.inputs import context
from scripts.plan.recipe_args import Args

TIGHT = 0.05
"""Share of the GPU's memory that must stay free: the prediction's error."""
GAIN = 0.05
"""Least share of a step's time for which the shipped files' reserve of memory is given up."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A layout with its options that fits the GPUs."""

    training: Training
    optimizer: str
    memory: Memory
    speed: Speed
    changes: Args
    """``recipe.args`` that differ from the recipe's; None drops a flag."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A training job and the GPUs to search layouts for."""

    job: Job
    model_config: ModelConfig
    training: Training
    gpu: GpuModel
    host_gib: float | None
    """Memory limit of a pod in GiB; None for no limit."""
    gang: Mapping[str, str] = field(default_factory=dict)
    """Values outside the recipe that differ from the release's: ``nodes``, ``gpuModel`` ..."""

    def layouts(self) -> list[Layout]:
        """Return all layouts whose sizes divide the model, the batch and the GPUs."""
        sizes = {"nodes": self.job.nodes, "gpus_per_node": self.job.gpus_per_node}
        return candidates.layouts(self.model_config, self.training, **sizes)

    @cached_property
    def possible(self) -> list[Layout]:
        """Return the layouts whose smallest possible memory fits the GPU."""
        return [layout for layout in self.layouts() if self._may(layout)]

    def best(self, count: int) -> list[Found]:
        """Return the fastest layouts, sorted by predicted step time.

        Each layout has its fastest options that fit, and of those the most exact optimizer, even
        where bf16 gradients would save a little traffic.
        """
        return list(islice(self._fastest(), count))

    def fewer_recomputed(self) -> Found | None:
        """Return the job with the fewest recomputed layers that fit, if that makes it faster."""
        own = self.training
        if (own.recompute, own.recompute_method) != ("full", "block"):
            return None
        fewer = (replace(own, recompute_num_layers=n) for n in range(1, own.recompute_num_layers))
        tried = (self.fitting("as given", each) for each in fewer)
        found = next(filter(None, tried), None)
        longest = (1 - GAIN) * self._speed(own).step_seconds
        return None if found is None or found.speed.step_seconds > longest else found

    def why_none(self) -> str:
        """Return why no layout fits, and what to change."""
        found = replace(self, host_gib=None)._fastest()
        least = min((each.memory.host for each in found), default=None)
        if least is None:
            return "none fits: take more GPUs, or GPUs with more memory"
        return (
            f"none fits the {self.host_gib:.0f} GiB of a pod's host memory, the least needs "
            f"{least:.0f} (predicted): write --set resources.limits.memory={ceil(least)}Gi"
        )

    def _fastest(self) -> Iterator[Found]:
        """Yield layouts by step time, from a heap keyed by a lower bound or the exact time.

        A way that does not fit is replaced by those that need less memory. They are never faster,
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
        """Yield, per dispatcher, the fastest way to train on a layout."""
        recompute = candidates.recompute(self.model_config.layers, layout.pp)
        for each in candidates.dispatchers(self.model_config, self.training, layout):
            yield Way(layout=layout, dispatcher=each, recompute=recompute)

    def _exact(self, way: Way) -> Found | None:
        """Return a way with the most exact optimizer that fits; None when none does."""
        tried = (self.fitting(n, way.training(self.training, f)) for n, f in way.optimizers)
        return next(filter(None, tried), None)

    def _bound(self, way: Way) -> tuple[float, tuple[int, ...], Way, Found | None]:
        """Return a way with the time of its last optimizer, which has the least traffic."""
        training = way.training(self.training, way.optimizers[-1][1])
        return self._speed(training).step_seconds, way.order, way, None

    def _may(self, layout: Layout) -> bool:
        """Return whether the model's shares in bf16 fit, which every way holds at least.

        Weights, gradients where weights are trained, and the reference; spread evenly.
        """
        dense = self.model_config.dense_parameters / (layout.tp * layout.pp)
        experts = self.model_config.expert_parameters / (layout.ep * layout.etp * layout.pp)
        copies = 1 + self.training.reference + (self.training.tuner == "full")
        return 2 * copies * (dense + experts) <= self.gpu.memory_gib * GIB

    def fitting(self, name: str, training: Training) -> Found | None:
        """Return a job with its predictions; None where it does not fit or breaks a rule."""
        used = memory.predict(self.model_config, training)
        if used.total > (1 - TIGHT) * self.gpu.memory_gib or used.host > (
            self.host_gib or used.host
        ):
            return None
        wanted = recipe_args.flags(training)
        if self._messages(wanted) - self._own_messages:  # rules that the recipe itself keeps
            return None
        return Found(
            training=training,
            optimizer=name,
            memory=used,
            speed=self._speed(training),
            changes=recipe_args.changes(self.job.recipe, wanted),
        )

    def _speed(self, training: Training) -> Speed:
        return speed_of(self.job, self.model_config, training, self.gpu)

    def left(self, found: Found) -> list[str]:
        """Return the rules that the recipe breaks, and would still break with this layout."""
        return sorted(self._own_messages & self._messages(recipe_args.flags(found.training)))

    @cached_property
    def _own_messages(self) -> set[str]:
        return self._messages({})

    def _messages(self, wanted: Args) -> set[str]:
        changed = recipe_args.merged(self.job.recipe, wanted).args
        return set(map(str, table.check(changed, context(self.job))))


def nearest(search: Search, count: int) -> list[Found]:
    """Return layouts that fit and change the fewest flags of the recipe, the fastest first."""
    found: list[Found] = []
    for _, group in groupby(_by_changes(search), key=itemgetter(0)):
        for _, layout, again, (name, fields) in group:
            training = on(search.training, layout, {**again, **fields})
            fitting = search.fitting(name, training)
            found += [fitting] if fitting else []
        if len(found) >= count:
            break
    return sorted(found, key=lambda each: each.speed.step_seconds)[:count]


def _by_changes(search: Search) -> list[tuple[int, Layout, Fields, tuple[str, Fields]]]:
    """Return all combinations of layout, recomputation and optimizer, fewest changes first.

    The three have no flag in common, so their changes add up.
    """
    own = search.training
    stages = {layout.pp for layout in search.possible}
    recomputes = {pp: _recomputes(search, pp) for pp in stages}
    kept = [on(own, own.layout, fields) for _, fields in OPTIMIZERS]
    optimizers = [_changed(search, recipe_args.optimizer_flags(training)) for training in kept]
    counted = [
        (sizes + more + most, layout, again, optimizer)
        for layout in search.possible
        for sizes in [_changed(search, recipe_args.layout_flags(on(own, layout, {})))]
        for more, again in recomputes[layout.pp]
        for most, optimizer in zip(optimizers, OPTIMIZERS, strict=True)
    ]
    return sorted(counted, key=itemgetter(0))


def _recomputes(search: Search, stages: int) -> list[tuple[int, Fields]]:
    """Return the choices of recomputation, each with the number of flags that it changes."""
    own = search.training
    choices = candidates.recompute(search.model_config.layers, stages)
    flags_of = [recipe_args.recompute_flags(on(own, own.layout, again)) for again in choices]
    return [
        (_changed(search, flags), again) for flags, again in zip(flags_of, choices, strict=True)
    ]


def _changed(search: Search, wanted: Args) -> int:
    """Return the number of flags that differ from the recipe's."""
    return len(recipe_args.changes(search.job.recipe, wanted))
