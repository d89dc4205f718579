"""Which ranks work together, and which of these groups leave their node.

Megatron-core numbers its ranks in the order tp-cp-ep-dp-pp (``parallel_state.py``, class
``RankGenerator``; ms-swift leaves the order at its default): neighbours in rank are tensor
parallel, pipeline stages are farthest apart. Expert layers have axes of their own over the same
ranks: etp, ep, edp, pp.
"""

from __future__ import annotations

from launchers.plan.layout import Layout

KINDS = ("tp", "cp", "dp", "pp", "etp", "ep", "edp")
DENSE = ("tp", "cp", "dp", "pp")
EXPERT = ("etp", "ep", "edp", "pp")
"""From the axis whose neighbours have consecutive ranks to the one farthest apart."""


def stride(layout: Layout, kind: str) -> int:
    """Return the distance in rank between two neighbours of a group.

    >>> stride(Layout(nodes=2, gpus_per_node=8, tp=4, pp=2, ep=8), "pp")
    8
    """
    order = EXPERT if kind in EXPERT and kind != "pp" else DENSE
    distance = 1
    for axis in order[: order.index(kind)]:
        distance *= size(layout, axis)
    return distance


def size(layout: Layout, kind: str) -> int:
    """Return the number of ranks in a group."""
    return int(getattr(layout, kind))


def groups(layout: Layout, kind: str) -> list[tuple[int, ...]]:
    """Return all groups of a kind, each as its ranks; every rank is in exactly one.

    >>> groups(Layout(nodes=1, gpus_per_node=4, tp=2), "dp")
    [(0, 2), (1, 3)]
    """
    step, count = stride(layout, kind), size(layout, kind)
    firsts = (rank for rank in range(layout.world) if rank // step % count == 0)
    return [tuple(first + i * step for i in range(count)) for first in firsts]


def spread(layout: Layout, kind: str) -> int:
    """Return over how many nodes the widest group of a kind spreads.

    >>> layout = Layout(nodes=2, gpus_per_node=8, tp=4, pp=2, ep=8)
    >>> {kind: spread(layout, kind) for kind in KINDS}
    {'tp': 1, 'cp': 1, 'dp': 1, 'pp': 2, 'etp': 1, 'ep': 1, 'edp': 1}
    """
    nodes = (
        len({rank // layout.gpus_per_node for rank in group}) for group in groups(layout, kind)
    )
    return max(nodes)


def stage_of(layout: Layout, rank: int) -> int:
    """Return the pipeline stage of a rank.

    >>> stage_of(Layout(nodes=2, gpus_per_node=8, pp=2), 8)
    1
    """
    return rank // stride(layout, "pp")


def stages_of_node(layout: Layout, node: int) -> tuple[int, ...]:
    """Return the pipeline stages whose ranks a node holds.

    >>> stages_of_node(Layout(nodes=1, gpus_per_node=8, pp=4), 0)
    (0, 1, 2, 3)
    """
    first = node * layout.gpus_per_node
    ranks = range(first, first + layout.gpus_per_node)
    return tuple(sorted({stage_of(layout, rank) for rank in ranks}))
