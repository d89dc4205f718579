"""Predictions for a run: layout, memory, time, length, footprint.

Built by ``megatron-dpo plan`` and by rank 0 at the start of a run; equal jobs give equal plans.
Parts that cannot be predicted are None, with the reason in ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from launchers.config.gpu_models import GPU_MODELS, GpuModel
from launchers.config.preflight import network_bandwidth
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.exits import LaunchError
from launchers.plan import memory, run_length
from launchers.plan import step_time as speed
from launchers.plan.footprint import Footprint, predict_footprint, save_interval
from launchers.plan.memory import Memory
from launchers.plan.model_config import ModelConfig
from launchers.plan.run_length import (
    Data,
    Duration,
    Evaluations,
    Length,
    of_steps,
    once,
    predict_run_length,
)
from launchers.plan.step_time import Link, Speed
from launchers.plan.training_job import Training
from launchers.plan.training_job import parse as parse_training

ADAPTER = 20.0
"""Assumed GB/s of a node: an all-reduce over one 200 Gb/s adapter reaches 20 to 23."""
SOCKETS = 2.5
"""Assumed GB/s over TCP: 25 GbE reaches 2 to 3, 100 GbE 6 to 11 (estimates)."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Inputs of a plan: what runs, where, and the known facts."""

    run: str
    recipe: Recipe
    nodes: int
    gpus_per_node: int
    skips: frozenset[str] = frozenset()
    standby: bool = False
    """Whether each rank has a waiting process for the next restart."""
    card: str = ""
    """A name of ``gpu_models.GPU_MODELS``; empty if unknown."""
    link: Link
    """Network between the nodes."""
    assumes_link: bool = False
    """Whether the network's bandwidth is an assumption."""
    shape: ModelConfig | None = None
    shape_source: str = ""
    """Source of the model's sizes, or why they are unknown."""
    data: Data | None = None


def job_of(
    settings: Settings,
    recipe: Recipe,
    env: Mapping[str, str],
    *,
    shape: ModelConfig | None,
    shape_source: str,
    data: Data | None = None,
) -> Job:
    """Return the job that the pods' environment describes."""
    return Job(
        run=settings.run,
        recipe=recipe,
        nodes=settings.place.nodes,
        gpus_per_node=settings.gpus_per_node,
        skips=settings.skips,
        standby=settings.standby,
        card=env.get("DPO_GPU_MODEL", ""),
        link=link_of(env),
        assumes_link=network_bandwidth(env) is None,
        shape=shape,
        shape_source=shape_source,
        data=data,
    )


def link_of(env: Mapping[str, str]) -> Link:
    """Return the network between the nodes from the container's environment.

    If the environment does not hold its bandwidth, a typical one is assumed.
    """
    name = env.get("DPO_NETWORK_TRANSPORT", "") or f"NET/{env.get('NCCL_NET', 'Socket')}"
    known = network_bandwidth(env)
    if known is not None:
        return Link(name=name, gbs=round(known, 1))
    return Link(name=name, gbs=SOCKETS if name == "NET/Socket" else ADAPTER)


Made = TypeVar("Made")
NO_CARD = "the GPU model is unknown: set gpuModel"
NO_DATA = "the number of pairs is unknown"


class _Unknown(ValueError):
    """A part of the plan cannot be computed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The prediction; None stands for what is not known."""

    job: Job
    card: GpuModel | None
    training: Training | None
    memory: Memory | None
    speed: Speed | None
    footprint: Footprint | None
    length: Length | None
    evaluations: Evaluations | None
    """None also if no rows are held out."""
    unknown: Mapping[str, str]
    """Name of a part that is None -> why."""

    @property
    def free_gib(self) -> float | None:
        """Return what the fullest GPU has left, negative when it does not fit."""
        if self.memory is None or self.card is None:
            return None
        return self.card.memory_gib - self.memory.total

    @property
    def duration(self) -> Duration | None:
        """Return the time of all steps, without start, evaluation and saving."""
        if self.length is None or self.speed is None or self.training is None:
            return None
        data, shape = self.job.data, self.job.shape
        before = 0.0
        if data is not None and shape is not None:
            before = once(shape, self.training, self.speed, samples=data.pairs, tokens=data.tokens)
        return of_steps(self.training, self.speed, self.length.steps, before)

    @property
    def stop_seconds(self) -> float | None:
        """Return the seconds from SIGTERM to a complete checkpoint: the end of a step and a save.

        They must fit into the grace period, otherwise ``lost_seconds`` of work may be lost.
        """
        if self.speed is None or self.footprint is None:
            return None
        return self.speed.step_seconds + self.footprint.save_seconds

    @property
    def lost_seconds(self) -> float | None:
        """Return the seconds of work lost by an interruption just before a checkpoint."""
        if self.speed is None or self.footprint is None or self.save_interval is None:
            return None
        if self.footprint.every is not None:
            return self.save_interval
        files = self.footprint
        written = files.hold_seconds + max(files.hold_seconds, files.save_seconds)
        return self.save_interval + written + self.speed.step_seconds

    @property
    def save_interval(self) -> float | None:
        """Return the seconds of training between two saves; None for one per epoch."""
        files, recipe = self.footprint, self.job.recipe
        if self.speed is None or files is None:
            return None
        step, hold = self.speed.step_seconds, files.hold_seconds
        if files.every is not None:
            return files.every * step
        if not recipe.saves_by_time:
            return None
        write = max(0.0, files.save_seconds - hold)
        return save_interval(60 * recipe.save_minutes, hold=hold, write=write, step=step)

    @property
    def save_share(self) -> float | None:
        """Return the part of the time, 0 to 1, for which saves stop training."""
        if self.save_interval is None or self.footprint is None:
            return None
        return self.footprint.hold_seconds / (self.footprint.hold_seconds + self.save_interval)


def speed_of(job: Job, shape: ModelConfig, training: Training, card: GpuModel) -> Speed:
    """Predict the speed of a job, or of the same job trained in another way."""
    tokens = run_length.microbatch_tokens(training, job.data)
    s_eff = run_length.s_eff(training, job.data)
    return speed.predict(shape, training, card, job.link, s_eff, tokens=tokens)


def build(job: Job) -> Plan:
    """Predict a run. Never raises: a part that cannot be predicted is None."""
    unknown: dict[str, str] = {}
    training = _try(unknown, "training", lambda: _training(job))
    card = GPU_MODELS.get(job.card)
    shape = job.shape
    used, fast, files = None, None, None
    if training is None or shape is None:
        reason = unknown.get("training") or job.shape_source
        unknown |= dict.fromkeys(("memory", "speed", "footprint"), reason)
    else:
        convert = "convert" not in job.skips
        used = _try(unknown, "memory", lambda: memory.predict(shape, training))
        files = _try(
            unknown,
            "footprint",
            lambda: predict_footprint(job.recipe, training, shape, convert=convert),
        )
        fast = _try(unknown, "speed", lambda: _speed(job, shape, training, card))
    steps = _try(unknown, "length", lambda: _length(job, training, unknown))
    evaluations = _try(unknown, "evaluation", lambda: _evaluations(job, training, fast, steps))
    return Plan(
        job=job,
        card=card,
        training=training,
        memory=used,
        speed=fast,
        footprint=files,
        length=steps,
        evaluations=evaluations,
        unknown=unknown,
    )


def _try(unknown: dict[str, str], part: str, make: Callable[[], Made]) -> Made | None:
    """Compute a part of the plan; record the reason if that fails."""
    try:
        return make()
    except LaunchError as error:
        unknown[part] = error.cause
    except _Unknown as error:
        unknown[part] = str(error)
    except (ArithmeticError, ValueError) as error:
        unknown[part] = f"the sizes are inconsistent: {error}"
    return None


def _training(job: Job) -> Training:
    training = parse_training(job.recipe, nodes=job.nodes, gpus_per_node=job.gpus_per_node)
    training = replace(training, standby=job.standby)
    layout = training.layout
    dense, experts = layout.tp * layout.pp * layout.cp, layout.etp * layout.ep * layout.pp
    if layout.world % dense or layout.world % experts:
        raise _Unknown(f"{layout.world} processes are not a multiple of the parallel sizes")
    if job.shape is None:
        return training
    layout.stage_layers(job.shape.layers)
    # ms-swift takes the model's context length where none is given
    return replace(training, max_length=training.max_length or job.shape.positions)


def _speed(job: Job, shape: ModelConfig, training: Training, card: GpuModel | None) -> Speed:
    if card is None:
        raise _Unknown(NO_CARD)
    return speed_of(job, shape, training, card)


def _evaluations(
    job: Job, training: Training | None, speed: Speed | None, steps: Length | None
) -> Evaluations | None:
    shape, data = job.shape, job.data
    if training is None or shape is None or speed is None or steps is None or data is None:
        return None  # their own reasons are in ``unknown``
    return run_length.evaluations(job.recipe, shape, training, speed, data, steps.steps)


def _length(job: Job, training: Training | None, unknown: Mapping[str, str]) -> Length:
    found = None if training is None else predict_run_length(job.recipe, training, job.data)
    if found is None:
        raise _Unknown(unknown.get("training", NO_DATA))
    return found
