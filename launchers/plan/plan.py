"""Predictions for a run: layout, memory, time, length, footprint.

Built by ``megatron-dpo plan`` and by rank 0 at the start of a run; equal jobs give equal plans.
Parts that cannot be predicted are None, with the reason in ``unknown``.
"""

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
    gpu_model: str = ""
    """A name of ``gpu_models.GPU_MODELS``; empty if unknown."""
    link: Link
    """Network between the nodes."""
    assumes_link: bool = False
    """Whether the network's bandwidth is an assumption."""
    model_config: ModelConfig | None = None
    model_config_source: str = ""
    """Source of the model's sizes, or why they are unknown."""
    data: Data | None = None
    prompts: str = ""
    """What ``recipe.promptOnce: auto`` is, in words; empty where the recipe decides."""


def job_of(
    settings: Settings,
    recipe: Recipe,
    env: Mapping[str, str],
    *,
    model_config: ModelConfig | None,
    model_config_source: str,
) -> Job:
    """Return the job that the pods' environment describes."""
    return Job(
        run=settings.launch.run,
        recipe=recipe,
        nodes=settings.launch.place.nodes,
        gpus_per_node=settings.launch.gpus_per_node,
        skips=settings.stages.skips,
        standby=settings.training.standby,
        gpu_model=env.get("DPO_GPU_MODEL", ""),
        link=link_of(env),
        assumes_link=network_bandwidth(env) is None,
        model_config=model_config,
        model_config_source=model_config_source,
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
NO_GPU_MODEL = "the GPU model is unknown: set gpuModel"
NO_DATA = "the number of pairs is unknown"


class _Unknown(ValueError):
    """A part of the plan cannot be computed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The prediction; None stands for what is not known."""

    job: Job
    gpu: GpuModel | None
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
        if self.memory is None or self.gpu is None:
            return None
        return self.gpu.memory_gib - self.memory.total

    @property
    def duration(self) -> Duration | None:
        """Return the time of all steps, without start, evaluation and saving."""
        if self.length is None or self.speed is None or self.training is None:
            return None
        data, model_config = self.job.data, self.job.model_config
        before = 0.0
        if data is not None and data.pairs is not None and model_config is not None:
            before = once(
                model_config, self.training, self.speed, samples=data.pairs, tokens=data.computed
            )
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


def speed_of(job: Job, model_config: ModelConfig, training: Training, gpu: GpuModel) -> Speed:
    """Predict the speed of a job, or of the same job trained in another way."""
    tokens = run_length.microbatch_tokens(training, job.data)
    s_eff = run_length.s_eff(training, job.data)
    return speed.predict(model_config, training, gpu, job.link, s_eff, tokens=tokens)


def build(job: Job) -> Plan:
    """Predict a run. Never raises: a part that cannot be predicted is None."""
    unknown: dict[str, str] = {}
    training = _try(unknown, "training", lambda: _training(job))
    gpu = GPU_MODELS.get(job.gpu_model)
    model_config = job.model_config
    used, fast, files = None, None, None
    if training is None or model_config is None:
        reason = unknown.get("training") or job.model_config_source
        unknown |= dict.fromkeys(("memory", "speed", "footprint"), reason)
    else:
        convert = "convert" not in job.skips
        used = _try(unknown, "memory", lambda: memory.predict(model_config, training))
        files = _try(
            unknown,
            "footprint",
            lambda: predict_footprint(job.recipe, training, model_config, convert=convert),
        )
        fast = _try(unknown, "speed", lambda: _speed(job, model_config, training, gpu))
    steps = _try(unknown, "length", lambda: _length(job, training, unknown))
    evaluations = _try(unknown, "evaluation", lambda: _evaluations(job, training, fast, steps))
    return Plan(
        job=job,
        gpu=gpu,
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
    if job.model_config is None:
        return training
    layout.stage_layers(job.model_config.layers)
    gpu = GPU_MODELS.get(job.gpu_model)
    if gpu is None or not gpu.groups:
        training = replace(training, moves_rows=False)
    if gpu is not None and gpu.domain > layout.gpus_per_node:
        training = replace(training, layout=replace(layout, nvlink=gpu.domain))
    # ms-swift takes the model's context length where none is given
    training = replace(training, max_length=training.max_length or job.model_config.positions)
    return replace(training, longest=run_length.unpacked(training, job.data))


def _speed(job: Job, model_config: ModelConfig, training: Training, gpu: GpuModel | None) -> Speed:
    if gpu is None:
        raise _Unknown(NO_GPU_MODEL)
    return speed_of(job, model_config, training, gpu)


def _evaluations(
    job: Job, training: Training | None, speed: Speed | None, steps: Length | None
) -> Evaluations | None:
    model_config, data = job.model_config, job.data
    if training is None or model_config is None or speed is None or steps is None or data is None:
        return None  # their own reasons are in ``unknown``
    return run_length.evaluations(job.recipe, model_config, training, speed, data, steps.steps)


def _length(job: Job, training: Training | None, unknown: Mapping[str, str]) -> Length:
    found = None if training is None else predict_run_length(job.recipe, training, job.data)
    if found is None:
        raise _Unknown(unknown.get("training", NO_DATA))
    return found
