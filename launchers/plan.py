"""What a run is going to do, predicted before it starts.

``megatron-dpo plan`` builds it on a person's machine, node rank 0 at the start of a run: the same
job gives the same plan. What cannot be predicted is None, and ``unknown`` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from launchers import footprint, length, memory, speed
from launchers.cards import CARDS, Card
from launchers.exits import LaunchError
from launchers.footprint import Footprint
from launchers.length import Data, Length
from launchers.memory import Memory
from launchers.recipe import Recipe
from launchers.settings import Settings
from launchers.shape import Shape
from launchers.speed import Link, Speed
from launchers.training import Training
from launchers.training import parse as parse_training

NO_CARD = "the GPU model is not known: write gpuModel"
NO_DATA = "the number of pairs is not known"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything that a plan is made of."""

    run: str
    recipe: Recipe
    nodes: int
    gpus_per_node: int
    skips: frozenset[str] = frozenset()
    card: str = ""
    """A name of ``cards.CARDS``; empty when it is not known."""
    link: Link
    """Between the nodes."""
    shape: Shape | None = None
    shape_source: str = ""
    """Where the model's sizes come from, or why they are not known."""
    data: Data | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The prediction; None stands for what is not known."""

    job: Job
    card: Card | None
    training: Training | None
    memory: Memory | None
    speed: Speed | None
    footprint: Footprint | None
    length: Length | None
    unknown: Mapping[str, str]
    """Name of a part that is None -> why."""

    @property
    def free_gib(self) -> float | None:
        """Return what the fullest GPU has left, negative when it does not fit."""
        if self.memory is None or self.card is None:
            return None
        return self.card.memory_gib - self.memory.total

    @property
    def seconds(self) -> float | None:
        """Return the seconds of all steps, without start, evaluation and saving."""
        if self.length is None or self.speed is None:
            return None
        return self.length.steps * self.speed.step_seconds


def job_of(
    settings: Settings,
    recipe: Recipe,
    env: Mapping[str, str],
    *,
    shape: Shape | None,
    shape_source: str,
    data: Data | None = None,
) -> Job:
    """Describe a run from what its pods are told."""
    return Job(
        run=settings.run,
        recipe=recipe,
        nodes=settings.place.nodes,
        gpus_per_node=settings.gpus_per_node,
        skips=settings.skips,
        card=env.get("GPU_MODEL", ""),
        link=link_of(env),
        shape=shape,
        shape_source=shape_source,
        data=data,
    )


def build(job: Job) -> Plan:
    """Predict a run. It never fails: a part that can't be predicted is None."""
    unknown: dict[str, str] = {}
    training = _training(job, unknown)
    card = CARDS.get(job.card)
    shape = job.shape
    if training is None or shape is None:
        missing = unknown.get("training") or job.shape_source
        unknown |= dict.fromkeys(("memory", "speed", "footprint"), missing)
        predicted, fast, files = None, None, None
    else:
        predicted = memory.predict(shape, training)
        files = footprint.of(job.recipe, shape, convert="convert" not in job.skips)
        fast = None if card is None else speed.predict(shape, training, card, job.link)
        if card is None:
            unknown["speed"] = NO_CARD
    steps = None if training is None else length.of(job.recipe, training, job.data)
    if steps is None:
        unknown["length"] = unknown.get("training", NO_DATA)
    return Plan(
        job=job,
        card=card,
        training=training,
        memory=predicted,
        speed=fast,
        footprint=files,
        length=steps,
        unknown=unknown,
    )


def _training(job: Job, unknown: dict[str, str]) -> Training | None:
    try:
        training = parse_training(job.recipe, nodes=job.nodes, gpus_per_node=job.gpus_per_node)
        training.layout.stage_layers(job.shape.layers if job.shape else training.layout.pp)
    except LaunchError as error:
        unknown["training"] = error.cause
        return None
    return training
