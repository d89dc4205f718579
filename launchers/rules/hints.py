"""Warnings that take arithmetic: one small function each, which returns what is not wanted.

Sources are abbreviated as in ``rules/parallelism.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from launchers.plan.model_config import Shape
from launchers.refusal import Refusal
from launchers.rules.model import Known, refused
from launchers.rules.parallelism import CP, DENSE, EP, ETP, GBS, MBS, PP, TP, VPP
from launchers.rules.recompute import GRANULARITY, LAYERS

Hint = Callable[[Shape, Known], Refusal | None]
_LENGTH = "max_length"


def tensor_across_nodes(known: Known) -> Refusal | None:
    """Ranks of tensor parallelism are neighbours (MC parallel_state.py, order tp-cp-ep-dp-pp)."""
    tp, gpus = known.size(TP), known.facts.gpus
    if tp <= gpus:
        return None
    return refused(
        "tensor-across-nodes",
        TP,
        f"{tp} is more than the {gpus} GPUs of a node: each layer waits for the network",
    )


def experts_across_nodes(known: Known) -> Refusal | None:
    """Each token goes to its experts and back, twice a layer: performance.md's arithmetic.

    51.5 GB a pack and GPU between nodes at EP 16 over 2 nodes (Qwen3-30B-A3B): 18 s at 200 Gb/s.
    """
    ep, etp, gpus = known.size(EP), known.size(ETP), known.facts.gpus
    if ep * etp <= gpus or ep == 1:
        return None
    return refused(
        "experts-across-nodes",
        EP,
        f"{ep} x {ETP} {etp} is more than the {gpus} GPUs of a node: tokens "
        f"cross the network twice a layer; {PP} over nodes costs far less",
    )


def bubble(known: Known) -> Refusal | None:
    """Idle share (PP-1)/(m+PP-1), Narayanan et al. 2021, arXiv 2104.04473, divided by VPP."""
    pp, replica = known.size(PP), 1
    for flag in DENSE:
        replica *= known.size(flag)
    step = known.size(MBS) * (known.facts.world // replica)
    if pp == 1 or not step or (batches := known.size(GBS) // step) >= pp or not batches:
        return None
    idle = (pp - 1) / (batches * known.size(VPP) + pp - 1)
    return refused(
        "pipeline-bubble",
        GBS,
        f"{known.size(GBS)} is {batches} microbatches for {pp} stages, which "
        f"idle {idle:.0%} of the time; write a larger one",
    )


def no_experts(shape: Shape, known: Known) -> Refusal | None:
    """SW model/utils.py:get_mcore_model_config sets both sizes to 1 for a dense model."""
    used = [flag for flag in (EP, ETP) if known.size(flag) > 1 and not shape.is_moe]
    return (
        refused("no-experts", used[0], "has no effect, the model has no experts") if used else None
    )


def too_many_recomputed(shape: Shape, known: Known) -> Refusal | None:
    """MC recompute.py takes at most the layers of a stage."""
    held = max(1, shape.layers // (known.size(PP) * known.size(VPP)))
    if known.facts.text(GRANULARITY) != "full" or known.size(LAYERS) <= held:
        return None
    return refused(
        "recompute-layers-many",
        LAYERS,
        f"{known.size(LAYERS)} is more than the {held} layers of a stage",
    )


def too_long(shape: Shape, known: Known) -> Refusal | None:
    """The model has seen no position beyond ``max_position_embeddings``; ms-swift only logs."""
    length = known.facts.number(_LENGTH) or 0
    if not shape.positions or length <= shape.positions or known.facts.text("rope_scaling"):
        return None
    return refused(
        "length-positions",
        _LENGTH,
        f"{length:.0f} is more than the model's {shape.positions} positions",
    )


def uneven_context(shape: Shape, known: Known) -> Refusal | None:
    """SW megatron_lm_utils.py cuts each sequence into 2 x CP pieces: short ones are padding."""
    cp, length = known.size(CP), known.facts.number(_LENGTH) or 0
    if cp == 1 or not length or length / cp >= 1024:
        return None
    return refused(
        "context-parallel-short",
        CP,
        f"{cp} leaves {length / cp:.0f} tokens a GPU of {_LENGTH} {length:.0f}",
    )


PLAIN: tuple[Callable[[Known], Refusal | None], ...] = (
    tensor_across_nodes,
    experts_across_nodes,
    bubble,
)
MODEL: tuple[Hint, ...] = (no_experts, too_many_recomputed, too_long, uneven_context)
