"""A plan as one JSON document: ``plan.json`` of a run, and a part of ``megatron-dpo plan --json``.

The format, version 1; sizes are bytes, GiB where the name says so, times seconds. A part that is
not known is null, and ``unknown`` has its reason under its name:

    version  run  recipe{backend, task, model, dataset, reference, args, digest}
    stages{name: run|skip}
    gang{nodes, gpus_per_node, world_size, card, network, network_gbs,
         network_assumed}
    model{source, parameters, active_parameters, layers, experts}
    layout{tp, pp, cp, ep, etp, vpp, dp, edp, stage_layers, spread{kind: nodes}, nodes[{ranks,
           stages}]}
    training{micro_batch_size, global_batch_size, microbatches, max_length, packing,
             packing_length, tuner, reference, precomputed, sequence_parallel, recompute,
             recompute_method, recompute_num_layers, attention_backend, precision_aware,
             optimizer_offload, exp_avg_dtype, exp_avg_sq_dtype, main_grads_dtype,
             main_params_dtype}
    memory{card_gib, total_gib, reserved_gib (by PyTorch), free_gib, items{name: gib}, stages_gib[],
           host_gib_per_node}
    speed{step_seconds, low_seconds, high_seconds, tokens_per_second_per_gpu, mfu,
          communication{link: seconds}}
    length{steps, source, hours, low_hours, high_hours, gpu_hours, reference_hours}
    evaluation{held_out, evaluated (rows), seconds (of one), count, share (of the run's time)}
    footprint{model, converted, checkpoint, merged (bytes of a model with the adapter in it),
              merges (last, every or never), every_steps, kept, needed, lost_seconds, is_exact,
              exported (safetensors of the last checkpoint alone), save_seconds (until it is
              complete), hold_seconds (for which it stops training),
              stop_seconds (from SIGTERM to a complete checkpoint),
              interval_seconds (of training between two saves), save_share (part of the time for
              which saves stop training)}
    unknown{part: reason}
"""

from dataclasses import fields
from typing import Any

from launchers.config.settings import STAGES
from launchers.plan.layout import KINDS, spread, stages_of_node
from launchers.plan.memory import Items
from launchers.plan.plan import Plan
from launchers.plan.training_job import Training

VERSION = 1


def document(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON data: the same plan, the same document."""
    job = plan.job
    recipe = job.recipe
    return {
        "version": VERSION,
        "run": job.run,
        "recipe": {
            "backend": recipe.backend,
            "task": recipe.task,
            "model": recipe.model,
            "dataset": list(recipe.dataset),
            "reference": recipe.reference,
            "args": recipe.args,
            "digest": recipe.digest,
        },
        "stages": {stage: "skip" if stage in job.skips else "run" for stage in STAGES},
        "gang": {
            "nodes": job.nodes,
            "gpus_per_node": job.gpus_per_node,
            "world_size": job.nodes * max(1, job.gpus_per_node),
            "card": plan.gpu.name if plan.gpu else None,
            "network": job.link.name,
            "network_gbs": job.link.gbs,
            "network_assumed": job.assumes_link,
        },
        "model": _model(plan),
        "layout": _layout(plan),
        "training": _training(plan.training),
        "memory": _memory(plan),
        "speed": _speed(plan),
        "length": _length(plan),
        "evaluation": _evaluation(plan),
        "footprint": _footprint(plan),
        "unknown": dict(sorted(plan.unknown.items())),
    }


def _model(plan: Plan) -> dict[str, Any] | None:
    model = plan.job.model_config
    if model is None:
        return None
    return {
        "source": plan.job.model_config_source,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": model.layers,
        "experts": model.experts,
    }


def _layout(plan: Plan) -> dict[str, Any] | None:
    if plan.training is None:
        return None
    layout = plan.training.layout
    per_node = layout.gpus_per_node
    nodes = [
        {
            "ranks": [node * per_node, (node + 1) * per_node - 1],
            "stages": list(stages_of_node(layout, node)),
        }
        for node in range(layout.nodes)
    ]
    model = plan.job.model_config
    return {
        **{name: getattr(layout, name) for name in ("tp", "pp", "cp", "ep", "etp", "vpp")},
        "dp": layout.dp,
        "edp": layout.edp,
        "stage_layers": None if model is None else list(layout.stage_layers(model.layers)),
        "spread": {kind: spread(layout, kind) for kind in KINDS},
        "nodes": nodes,
    }


def _training(training: Training | None) -> dict[str, Any] | None:
    names = (
        "micro_batch_size", "global_batch_size", "microbatches", "max_length", "packing",
        "packing_length", "tuner", "reference", "precomputed", "sequence_parallel",
        "precision_aware", "optimizer_offload", "exp_avg_dtype", "exp_avg_sq_dtype",
        "main_grads_dtype", "main_params_dtype", "recompute", "recompute_method",
        "recompute_num_layers", "attention_backend",
    )  # fmt: skip
    return {name: getattr(training, name) for name in names} if training is not None else None


def _memory(plan: Plan) -> dict[str, Any] | None:
    used = plan.memory
    if used is None:
        return None
    return {
        "card_gib": plan.gpu.memory_gib if plan.gpu else None,
        "total_gib": _round(used.total),
        "reserved_gib": _round(used.reserved),
        "free_gib": _known(plan.free_gib, 3),
        "items": {part.name: _round(getattr(used, part.name)) for part in fields(Items)},
        "stages_gib": [_round(total) for total in used.per_stage],
        "host_gib_per_node": _round(used.host),
    }


def _speed(plan: Plan) -> dict[str, Any] | None:
    speed = plan.speed
    if speed is None:
        return None
    return {
        "step_seconds": _round(speed.step_seconds),
        "low_seconds": _round(speed.low),
        "high_seconds": _round(speed.high),
        "tokens_per_second_per_gpu": round(speed.tokens_per_second_per_gpu),
        "mfu": round(speed.mfu, 4),
        "communication": {link: _round(seconds) for link, seconds in speed.communication.items()},
    }


def _length(plan: Plan) -> dict[str, Any] | None:
    if plan.length is None:
        return None
    run = plan.duration
    return {
        "steps": plan.length.steps,
        "source": plan.length.source,
        "hours": run and _round(run.hours),
        "low_hours": run and _round(run.low),
        "high_hours": run and _round(run.high),
        "gpu_hours": run and _round(run.gpu_hours),
        "reference_hours": run and _round(run.reference_hours),
    }


def _evaluation(plan: Plan) -> dict[str, Any] | None:
    found, run = plan.evaluations, plan.duration
    if found is None or run is None:
        return None
    return {
        "held_out": found.held_out,
        "evaluated": found.evaluated,
        "seconds": _round(found.seconds),
        "count": found.count,
        "share": round(found.share(run), 4),
    }


def _footprint(plan: Plan) -> dict[str, Any] | None:
    files = plan.footprint
    if files is None:
        return None
    names = ("model", "converted", "checkpoint", "merged", "merges", "kept", "needed", "is_exact")
    return {
        **{name: getattr(files, name) for name in (*names, "exported")},
        "every_steps": files.every,
        "lost_seconds": _known(plan.lost_seconds),
        "save_seconds": round(files.save_seconds),
        "hold_seconds": round(files.hold_seconds),
        "interval_seconds": _known(plan.save_interval),
        "save_share": _known(plan.save_share, 4),
        "stop_seconds": _known(plan.stop_seconds),
    }


def _known(number: float | None, digits: int | None = None) -> float | None:
    return None if number is None else round(number, digits)


def _round(number: float) -> float:
    return round(number, 3)
