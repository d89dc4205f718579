"""The verdict on a release: all reasons to refuse it, and warnings."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from launchers.config.sources import split_count
from launchers.exits import Exit, LaunchError
from launchers.inputs.model_files import check_local_source
from launchers.plan import memory
from launchers.plan.footprint import WRITE_BYTES_PER_SECOND
from launchers.plan.memory import HOST_ERROR_SHARE
from launchers.plan.plan import Plan
from launchers.plan.run_length import shortest
from launchers.refusal import Refusal
from launchers.rules import table
from launchers.stop.agreement import END_SECONDS, seconds_to_save
from launchers.storage.node_disk import KEPT_FREE
from launchers.system import lookup
from launchers.units import GIB
from scripts.plan.inputs import context
from scripts.plan.search import TIGHT
from scripts.plan.submission import Submission, named_sources
from scripts.plan.transformers import states
from scripts.plan.units import bytes_text, time_text

LOST_SECONDS_WARNING = 3600.0
"""Seconds of work between two checkpoints above which a warning is shown."""

LOWER_LIMIT = "lower recipe.args.save_total_limit"
"""Remedy when checkpoints need too much of the workspace."""

BY_TIME = "save on a faster file system, or lower recipe.saveMinutes"
"""Remedy when checkpoints by time are rare: a save may take 2 % of the time."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Refusals and warnings of a release."""

    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    is_too_big: bool
    """Return whether memory is among the refusals, so that another layout may help."""


def judge(submission: Submission, plan: Plan) -> Verdict:
    """Return the verdict on a release, given its plan."""
    recipe = submission.recipe
    known = context(plan.job)
    broken = [*submission.refusals, *table.check(recipe.args, known)]
    model = plan.job.model_config
    is_guess = model is not None and not model.is_counted
    too_big = [] if broken or is_guess else [*_gpu(plan), *_host(submission, plan)]
    disk = [] if broken or is_guess else _disk(submission, plan)
    damaged, unread = _model(submission)
    doubts = [
        *map(str, table.warn(recipe.args, known)),
        *_doubts(submission, plan),
        *submission.warnings,
        *_grace(submission, plan),
        *_local(submission, plan),
        *_sources(submission),
        *unread,
    ]
    return Verdict(
        refusals=tuple(map(str, [*broken, *damaged, *too_big, *disk])),
        warnings=tuple(doubts),
        is_too_big=bool(too_big) and plan.training is not None,
    )


def _model(submission: Submission) -> tuple[list[str], list[str]]:
    """Return why the folder of a local model is refused, and a warning if it cannot be read."""
    try:
        with lookup.within(0):
            check_local_source(submission.recipe)
    except LaunchError as error:
        if error.code == Exit.IO:
            return [], [f"recipe.model was not judged: {error.cause}"]
        return [f"{error.cause}; {error.remedy} [{error.id}]"], []
    return [], []


def model_states(plan: Plan) -> states.States | None:
    """Return the model states of a GPU with the transformers trainer, where they are known."""
    job = plan.job
    if job.recipe.backend != "transformers" or job.model_config is None or not job.gpus_per_node:
        return None
    return states.predict(job.recipe, job.model_config, world=job.nodes * job.gpus_per_node)


def _gpu(plan: Plan) -> list[Refusal]:
    found = model_states(plan)
    if found is not None and plan.gpu is not None and found.total > plan.gpu.memory_gib:
        says = (
            f"weights, gradients, optimizer and reference alone need {found.total:.1f} GiB of a "
            f"GPU with {found.sharding}, and {plan.gpu.name} has {plan.gpu.memory_gib:.1f}; use "
            + ("" if states.gathers(plan.job.recipe) else "deepspeed: zero3, or fsdp: fsdp2, or ")
            + ("" if plan.job.recipe.trains_adapter else "tuner_type: lora, or ")
            + "more GPUs, or recipe.backend: megatron"
        )
        return [Refusal(id="plan-gpu-memory", path="recipe.args", says=says)]
    if plan.memory is None or plan.gpu is None or plan.free_gib is None or plan.free_gib >= 0:
        return []
    if (rest := _assumed(plan)) is not None and rest <= plan.gpu.memory_gib:
        return []  # an assumption refuses nothing; see _all_longest
    says = (
        f"the fullest GPU needs {plan.memory.total:.1f} GiB (predicted), and "
        f"{plan.gpu.name} has {plan.gpu.memory_gib:.1f}; change the layout"
    )
    return [Refusal(id="plan-gpu-memory", path="recipe.args", says=says)]


def _host(submission: Submission, plan: Plan) -> list[Refusal]:
    limit, found = submission.pod.memory, model_states(plan)
    if (plan.memory is None and found is None) or limit is None:
        return []
    each = 0.0 if found is None else found.host * plan.job.gpus_per_node
    need = each if plan.memory is None else plan.memory.host
    queued = 0.0 if plan.memory is None else plan.memory.host_queued
    if (need - queued) * GIB <= limit:
        return []
    less = "use more nodes" if found else "lower recipe.args.optimizer_offload_fraction"
    says = (
        f"a pod needs {need:.0f} GiB of host memory (predicted) and has {limit / GIB:.0f}; use "
        f"{math.ceil(need)}Gi, or {less}"
    )
    return [Refusal(id="plan-host-memory", path="resources.limits.memory", says=says)]


def _disk(submission: Submission, plan: Plan) -> list[Refusal]:
    size, files = submission.workspace_size, plan.footprint
    if size is None or files is None or files.needed is None or files.needed <= size:
        return []
    less = "remove recipe.args.merge_lora" if files.merges == "every" else LOWER_LIMIT
    says = (
        f"the run needs {bytes_text(files.needed)} and the claim has "
        f"{bytes_text(size)}; use {math.ceil(files.needed / GIB)}Gi, or {less}"
    )
    return [Refusal(id="plan-workspace-size", path="workspace.pvc.size", says=says)]


def _doubts(submission: Submission, plan: Plan) -> Iterator[str]:
    free, gpu, files = plan.free_gib, plan.gpu, plan.footprint
    if free is not None and gpu is not None and 0 <= free < TIGHT * gpu.memory_gib:
        yield f"memory is tight: {free:.1f} GiB free is within the prediction's error"
    limit = submission.pod.memory
    if plan.memory is not None and limit is not None:
        left = limit / GIB - plan.memory.host
        if -plan.memory.host_queued <= left < HOST_ERROR_SHARE * plan.memory.host:
            why = f"{left:.0f} GiB above the prediction is within its error"
            if left < 0:
                why = f"{-left:.0f} GiB lack where a save is written more slowly than gathered"
            yield f"host memory is tight: {why}; raise resources.limits.memory"
    if gpu is not None and gpu.domain and plan.job.nodes > 1:
        yield (
            f"predicted for nodes in one NVLink domain of {gpu.domain} GPUs: place them there "
            "(kueue.topology), or every group across nodes is slower"
        )
    model = plan.job.model_config
    if model is not None:
        gathers = states.gathers(plan.job.recipe)
        if plan.job.recipe.backend == "transformers" and model.is_moe and gathers:
            yield (
                f"each GPU gathers all {model.experts} experts of every layer, whatever its tokens "
                "use: recipe.backend: megatron with expert_model_parallel_size keeps them apart, "
                f"{states.MEGATRON_RATIO}"
            )
    if (worst := _all_longest(plan)) is not None:
        yield worst
    if model is not None and not model.is_counted:
        yield (
            "the sizes of models of its model_type are not known: parameters, memory and time are "
            "those of a usual decoder, and refuse nothing; rehearse measures them"
        )
    elif model is not None and model.unmodelled:
        keys = ", ".join(model.unmodelled)
        yield f"the prediction is rough: {keys} of config.json is not modelled"
    if plan.lost_seconds is not None and plan.lost_seconds > LOST_SECONDS_WARNING:
        yield (
            f"up to {time_text(plan.lost_seconds)} of work is lost by an interruption: "
            + (BY_TIME if submission.recipe.saves_by_time else "lower recipe.args.save_steps")
        )
    if files is not None and files.kept is None:
        yield (
            f"every checkpoint is kept, {bytes_text(files.saved)} each: "
            "write recipe.args.save_total_limit"
        )


def _assumed(plan: Plan) -> float | None:
    """Return the GiB of a GPU if one row of a microbatch is long, where only that is certain."""
    training, model, data = plan.training, plan.job.model_config, plan.job.data
    if training is None or model is None or not training.longest:
        return None
    if data is not None and not data.assumed:
        return None
    return memory.predict(model, replace(training, longest=shortest(training))).total


def _all_longest(plan: Plan) -> str | None:
    """Warn if a microbatch whose rows are all at the maximum would not fit."""
    training, model, gpu = plan.training, plan.job.model_config, plan.gpu
    if training is None or model is None or gpu is None or not training.longest:
        return None
    need = memory.predict(model, replace(training, longest=0)).total
    if need <= gpu.memory_gib:
        return None
    if plan.free_gib is not None and plan.free_gib < 0 and (least := _assumed(plan)) is not None:
        return (
            f"memory depends on the rows, whose mean length is unknown: {least:.0f} GiB where one "
            f"of a microbatch is at max_length, {need:.0f} where all {training.micro_batch_size} "
            "are; give --tokens N, or pack them"
        )
    return (
        f"memory is for the mean length of the pairs (--tokens): {need:.0f} GiB where all "
        f"{training.micro_batch_size} of a microbatch are at max_length; packing bounds it"
    )


def _grace(submission: Submission, plan: Plan) -> list[str]:
    """Warn if SIGTERM leaves too little time to end a step and save it."""
    needs, has = plan.stop_seconds, submission.grace_seconds
    if needs is None or needs <= seconds_to_save(has):
        return []
    enough = 60 * math.ceil((needs + END_SECONDS) / 60)
    return [
        f"preemption may lose the steps since the last checkpoint: a step and a save take "
        f"{time_text(needs)} (predicted), and terminationGracePeriodSeconds is {has:.0f}: "
        f"raise it to {enough}, or less on a file system faster than "
        f"{WRITE_BYTES_PER_SECOND / 1e9:g} GB/s"
    ]


def _local(submission: Submission, plan: Plan) -> list[str]:
    """Warn if saves do not go to the nodes' disks of `localCheckpoints`, or do not fit there."""
    if "DPO_LOCAL_CHECKPOINTS" not in submission.env or plan.footprint is None:
        return []
    if not submission.recipe.saves_in_background:
        return ["localCheckpoints is not used: only checkpoints written in the background go to it"]
    part = plan.footprint.copied * submission.gpus_per_node
    # the newest complete checkpoint stays while the next one is written
    needed, limit = part + part / KEPT_FREE, float(submission.env.get("DPO_LOCAL_BYTES", "0"))
    if not limit or needed <= limit:
        return []
    return [
        f"checkpoints do not fit on the nodes' disks and are written to the workspace at once: a "
        f"node needs {bytes_text(needed)} (predicted), and localCheckpoints.emptyDir.sizeLimit is "
        f"{bytes_text(limit)}; raise it"
    ]


def _sources(submission: Submission) -> list[str]:
    named = named_sources(submission.recipe)
    if submission.env.get("DPO_CODE_URL"):
        named.append(("code.ref", f"@{submission.env.get('DPO_CODE_REF', '')}"))
    moving = [key for key, text in named if _is_branch(text)]
    return [f"{', '.join(moving)} may change between restarts: write a commit"] if moving else []


def _is_branch(text: str) -> bool:
    """Return whether a source names a branch, which moves.

    >>> _is_branch("hf://Qwen/Qwen3-8B@main"), _is_branch("hf://Qwen/Qwen3-8B@9c925d64")
    (True, False)
    """
    revision = split_count(text)[0].rpartition("@")[2].split("/", 1)[0]
    return "@" in text and revision in ("main", "master", "develop")
