"""The JSON document of `megatron-dpo plan --json`, version 1.

A plan:

    version  accepted  refusals[]  fixes[]  warnings[]
    fixes[{id, path, sure, choices[[{act, path, value}]]}]
                    what the words of a refusal change in the values, by choice; act is set, remove,
                    move (value is the new path), quote (as the file has it), or ask (the
                    user gives the value; value says which are allowed)
    submission{queue, priority, topology, image, placement, workspace, workspace_bytes, restarts,
               pod{cpus, memory_bytes, shared_memory_bytes, ephemeral_bytes, devices{name: count}}}
    plan{...}       the document of launchers/plan/document.py: what the run writes as plan.json
    model_states{weights_gib, gradients_gib, optimizer_gib, reference_gib, total_gib, host_gib,
                    sharding} of a GPU, its least, with the transformers trainer; null: not known
    prompts         whether recipe.promptOnce: auto computes them once, and why not; null where the
                    values decide
    cost{currency, run, epoch, thousand_pairs, kwh}
                    of the steps, at the prices and watts that the user gives (scripts/prices.py)
    proposals[]     layouts that fit when this one does not, as in a search; they are the first
                    choices of the fix of a plan that needs too much memory. When it fits: itself
                    with the fewest recomputed layers that fit, if that is faster

When the values or options are refused, ``submission``, ``plan``, ``model_states``, ``prompts`` and
``cost`` are null, and so is what is not known of the cost.
A search:

    version  accepted (whether any fits)  refusals[] (why not)
    gang{nodes, gpus_per_node, card} or null  considered
    layouts[{rank, layout{tp, pp, cp, ep, etp, dp}, recompute, optimizer, memory_gib,
             host_gib_per_node, step_seconds, low_seconds, high_seconds,
             tokens_per_second_per_gpu, mfu, changes{recipe.args: value, or null to drop it}}]
"""

from collections.abc import Sequence
from typing import Any

from launchers.plan import document
from launchers.plan.plan import Plan
from launchers.plan.run_length import per_step
from scripts.fix.change import with_layouts
from scripts.fix.words import remedies
from scripts.plan.search import Found, Search
from scripts.plan.submission import Submission
from scripts.plan.verdict import Verdict, model_states
from scripts.prices import Prices

VERSION = 1


def of_plan(
    submission: Submission,
    plan: Plan,
    verdict: Verdict,
    proposals: Sequence[Found],
    prices: Prices,
) -> dict[str, Any]:
    """Return the document of a plan."""
    layouts = [found.changes for found in proposals]
    return {
        "version": VERSION,
        "accepted": not verdict.refusals,
        "refusals": list(verdict.refusals),
        "fixes": [with_layouts(each, layouts).document() for each in remedies(verdict.refusals)],
        "warnings": list(verdict.warnings),
        "submission": _submission(submission),
        "plan": document.document(plan),
        "model_states": _states(plan),
        "prompts": plan.job.prompts or None,
        "cost": cost(plan, prices),
        "proposals": [_found(found, rank) for rank, found in enumerate(proposals, 1)],
    }


def cost(plan: Plan, prices: Prices) -> dict[str, Any] | None:
    """Return what the steps cost; None if their time is not known, or the GPU has no price."""
    run, data, training = plan.duration, plan.job.data, plan.training
    if run is None or training is None or plan.gpu is None:
        return None
    hour, watts = prices.gpu_hour.get(plan.gpu.name), prices.watts.get(plan.gpu.name)
    if hour is None and watts is None:
        return None
    pairs = run.steps * per_step(training, data.computed) if data and data.pairs else None
    whole = None if hour is None else hour * run.gpu_hours
    pair = whole / pairs if whole is not None and pairs else None
    return {
        "currency": prices.currency,
        "run": whole,
        "epoch": pair and data and pair * (data.pairs or 0),
        "thousand_pairs": pair and 1000 * pair,
        "kwh": watts and watts * run.gpu_hours / 1000,
    }


def lines(text: str) -> list[str]:
    """Return the refusals of a problem's text, without its heading."""
    return [line for line in text.splitlines()[1:] if line.strip()] or [text]


def of_refusal(text: str, *, search: bool) -> dict[str, Any]:
    """Return the document when values or options are refused."""
    refusals = lines(text)
    head = {"version": VERSION, "accepted": False, "refusals": refusals}
    if search:
        return {**head, "gang": None, "considered": 0, "layouts": []}
    return {
        **head,
        "fixes": [each.document() for each in remedies(refusals)],
        "warnings": [],
        **dict.fromkeys(("submission", "plan", "model_states", "prompts", "cost")),
        "proposals": [],
    }


def of_search(search: Search, found: Sequence[Found]) -> dict[str, Any]:
    """Return the document of a search."""
    job = search.job
    return {
        "version": VERSION,
        "accepted": bool(found),
        "refusals": [] if found else [search.why_none()],
        "gang": {"nodes": job.nodes, "gpus_per_node": job.gpus_per_node, "card": search.gpu.name},
        "considered": len(search.layouts()),
        "layouts": [_found(each, rank) for rank, each in enumerate(found, 1)],
    }


def _states(plan: Plan) -> dict[str, Any] | None:
    found = model_states(plan)
    if found is None:
        return None
    parts = ("weights", "gradients", "optimizer", "reference", "total", "host")
    sizes = {f"{part}_gib": round(getattr(found, part), 3) for part in parts}
    return {**sizes, "sharding": found.sharding}


def _submission(submission: Submission) -> dict[str, Any]:
    pod = submission.pod
    return {
        "queue": submission.queue or None,
        "priority": submission.priority or None,
        "topology": submission.topology or None,
        "image": submission.image,
        "placement": submission.placement,
        "workspace": submission.workspace,
        "workspace_bytes": submission.workspace_size,
        "restarts": submission.restarts,
        "pod": {
            "cpus": pod.cpus,
            "memory_bytes": pod.memory,
            "shared_memory_bytes": pod.shared_memory,
            "ephemeral_bytes": pod.ephemeral,
            "devices": dict(pod.devices),
        },
    }


def _found(found: Found, rank: int) -> dict[str, Any]:
    layout, speed = found.training.layout, found.speed
    sizes = {name: getattr(layout, name) for name in ("tp", "pp", "cp", "ep", "etp", "dp")}
    return {
        "rank": rank,
        "layout": sizes,
        "recompute": found.training.recompute,
        "optimizer": found.optimizer,
        "memory_gib": round(found.memory.total, 3),
        "host_gib_per_node": round(found.memory.host, 3),
        "step_seconds": round(speed.step_seconds, 3),
        "low_seconds": round(speed.low, 3),
        "high_seconds": round(speed.high, 3),
        "tokens_per_second_per_gpu": round(speed.tokens_per_second_per_gpu),
        "mfu": round(speed.mfu, 4),
        "changes": dict(found.changes),
    }
