"""The layout as lines of text: ranks of each node, and groups that span nodes."""

from collections.abc import Iterator
from itertools import groupby

from launchers.plan.layout import Layout, groups, size, spread, stages_of_node
from launchers.plan.plan import Plan
from launchers.plan.training_job import Training

NODES = 4
"""Up to this many nodes are listed one by one; more are grouped by their stages."""
GPUS = 8
"""Up to this many ranks of a node are listed one by one."""
NAMES = ("tp", "pp", "cp", "ep", "etp", "dp", "edp")


def lines(plan: Plan, training: Training) -> Iterator[str]:
    """Yield the sizes, the nodes, and the groups inside a node and across nodes."""
    layout, model = training.layout, plan.job.model_config
    yield "  ".join(f"{name.upper()} {size(layout, name)}" for name in NAMES)
    spans = [] if model is None else _spans(layout.stage_layers(model.layers))
    if layout.nodes <= NODES:
        for node in range(layout.nodes):
            yield f"node {node} {_ranks(layout, node)}{_stages(layout, node, spans)}"
    else:
        yield from list(_blocks(layout, spans))[:NODES]
    wide = {name: spread(layout, name) for name in NAMES if size(layout, name) > 1}
    inside = ", ".join(name.upper() for name, nodes in wide.items() if nodes == 1)
    across = ", ".join(f"{n.upper()} over {nodes}" for n, nodes in wide.items() if nodes > 1)
    nvlink = "" if plan.gpu is None else f" (NVLink, {plan.gpu.nvlink_gbs:g} GB/s)"
    yield f"inside a node{nvlink}: {inside or 'nothing'}"
    if layout.nodes > 1:
        yield f"across nodes ({plan.job.link.name}): {across or 'nothing'}"


def fabric(plan: Plan) -> str:
    """Return the network between nodes with its expected bandwidth."""
    job = plan.job
    return f"{job.link.name}, {job.link.gbs:g} GB/s {'assumed' if job.assumes_link else 'expected'}"


def _blocks(layout: Layout, spans: list[str]) -> Iterator[str]:
    """Yield runs of consecutive nodes that hold the same stages."""
    nodes = range(layout.nodes)
    for _, same in groupby(nodes, key=lambda node: stages_of_node(layout, node)):
        block = list(same)
        name = f"node {block[0]}" if len(block) == 1 else f"nodes {block[0]}-{block[-1]}"
        first, last = block[0] * layout.gpus_per_node, (block[-1] + 1) * layout.gpus_per_node - 1
        yield f"{name}, ranks {first}-{last}{_stages(layout, block[0], spans)}"


def _stages(layout: Layout, node: int, spans: list[str]) -> str:
    stages = stages_of_node(layout, node)
    if len(stages) > 1:
        return f"  stages {stages[0]}-{stages[-1]}"
    return f"  stage {stages[0]}" + (f", layers {spans[stages[0]]}" if spans else "")


def _ranks(layout: Layout, node: int) -> str:
    """Return the ranks of a node; brackets are tensor parallel groups.

    >>> _ranks(Layout(nodes=2, gpus_per_node=4, tp=2), 1)
    '[4 5][6 7]'
    """
    first = node * layout.gpus_per_node
    ranks = range(first, first + layout.gpus_per_node)
    inside = [g for g in groups(layout, "tp") if g[0] in ranks and g[-1] in ranks]
    if len(ranks) > GPUS or not inside or layout.tp == 1:
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "".join(f"[{' '.join(map(str, group))}]" for group in inside)


def _spans(stage_layers: tuple[int, ...]) -> list[str]:
    """Return first and last layer of each stage.

    >>> _spans((2, 3))
    ['0-1', '2-4']
    """
    starts = [sum(stage_layers[:place]) for place in range(len(stage_layers))]
    return [
        f"{start}-{start + count - 1}" for start, count in zip(starts, stage_layers, strict=True)
    ]
