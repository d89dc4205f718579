"""Whether a release can run: all reasons against it at once, and what only deserves a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from launchers.plan.plan import Plan
from launchers.refusal import Refusal
from launchers.rules import table
from scripts.plan.quantity import GIB, bytes_text, time_text
from scripts.plan.release import Release
from scripts.plan.search import TIGHT

MUCH_LOST = 3600.0
"""Seconds of work between two checkpoints that are worth a warning."""

LESS = "lower recipe.args.save_total_limit"
"""How a run needs less of the workspace."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is wrong with a release, and what is only doubtful."""

    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    is_too_big: bool
    """Whether memory is among the refusals: another layout may help."""


def judge(release: Release, plan: Plan) -> Verdict:
    """Judge a release by its plan."""
    recipe = release.recipe
    gang: dict[str, Any] = {
        "shape": plan.job.shape,
        "nodes": release.nodes,
        "gpus_per_node": max(1, release.gpus_per_node),
        "backend": recipe.backend,
        "task": recipe.task,
        "reference": recipe.reference,
    }
    broken = table.check(recipe.args, **gang)
    memory = [] if broken else [*_gpu(plan), *_host(release, plan)]
    disk = [] if broken else _disk(release, plan)
    doubts = [*map(str, table.warn(recipe.args, **gang)), *_doubts(plan), *_sources(release)]
    return Verdict(
        refusals=tuple(map(str, [*broken, *memory, *disk])),
        warnings=tuple(doubts),
        is_too_big=bool(memory),
    )


def _gpu(plan: Plan) -> list[Refusal]:
    if plan.memory is None or plan.card is None or plan.free_gib is None or plan.free_gib >= 0:
        return []
    says = (
        f"the fullest GPU needs {plan.memory.total:.1f} GiB (predicted), and "
        f"{plan.card.name} has {plan.card.memory_gib:.1f}; change the layout"
    )
    return [Refusal(id="plan-gpu-memory", path="recipe.args", says=says)]


def _host(release: Release, plan: Plan) -> list[Refusal]:
    limit = release.pod.memory
    if plan.memory is None or limit is None:
        return []
    need = plan.memory.host * GIB
    if need <= limit:
        return []
    says = (
        f"a pod needs {need / GIB:.0f} GiB of host memory (predicted) and "
        f"has {limit / GIB:.0f}; raise it, or lower recipe.args.optimizer_offload_fraction"
    )
    return [Refusal(id="plan-host-memory", path="resources.limits.memory", says=says)]


def _disk(release: Release, plan: Plan) -> list[Refusal]:
    size, files = release.workspace_size, plan.footprint
    if size is None or files is None or files.needed is None or files.needed <= size:
        return []
    less = "remove recipe.args.merge_lora" if files.merges == "every" else LESS
    says = (
        f"the run needs {bytes_text(files.needed)} and the claim has "
        f"{bytes_text(size)}; raise it, or {less}"
    )
    return [Refusal(id="plan-workspace-size", path="workspace.pvc.size", says=says)]


def _doubts(plan: Plan) -> list[str]:
    found = []
    free, card, files = plan.free_gib, plan.card, plan.footprint
    if free is not None and card is not None and 0 <= free < TIGHT * card.memory_gib:
        found.append(f"memory is tight: {free:.1f} GiB free is within the prediction's error")
    if plan.job.shape is not None and plan.job.shape.unmodelled:
        keys = ", ".join(plan.job.shape.unmodelled)
        found.append(f"the prediction is rough: {keys} of config.json is not modelled")
    if plan.lost_seconds is not None and plan.lost_seconds > MUCH_LOST:
        found.append(
            f"up to {time_text(plan.lost_seconds)} of work is lost when the run is cut: "
            "lower recipe.args.save_steps"
        )
    if files is not None and files.kept is None:
        found.append(
            f"every checkpoint is kept, {bytes_text(files.saved)} each: "
            "write recipe.args.save_total_limit"
        )
    if files is not None and not files.is_exact:
        found.append("a resume starts with an empty optimizer: recipe.args.no_save_optim is true")
    return found


def _sources(release: Release) -> list[str]:
    named = [("recipe.model", release.recipe.model)]
    named += [(f"recipe.dataset[{i}]", text) for i, text in enumerate(release.recipe.dataset)]
    if release.env.get("DPO_CODE_URL"):
        named.append(("code.ref", f"@{release.env.get('DPO_CODE_REF', '')}"))
    moving = [key for key, text in named if _is_branch(text)]
    return [f"{', '.join(moving)} may change between restarts: write a commit"] if moving else []


def _is_branch(text: str) -> bool:
    """Whether a source names a branch that moves.

    >>> _is_branch("hf://Qwen/Qwen3-8B@main"), _is_branch("hf://Qwen/Qwen3-8B@9c925d64")
    (True, False)
    """
    revision: Sequence[str] = text.rpartition("@")[2].split("/", 1)
    return "@" in text and revision[0].partition("#")[0] in ("main", "master", "develop")
