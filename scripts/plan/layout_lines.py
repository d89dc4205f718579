"""The layout in words: which ranks share a node, which groups leave it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from launchers.groups import groups, size, spread, stage_of
from launchers.layout import Layout
from launchers.plan import Plan
from launchers.shape import Shape

NODES = 4
"""Nodes that are listed; the others look the same."""
GPUS = 8
"""Ranks of a node that are listed one by one."""
NAMES = ("tp", "pp", "cp", "ep", "etp", "dp", "edp")


def lines(layout: Layout, shape: Shape | None) -> Iterator[str | Text]:
    """Yield the sizes, a line a node, and which groups stay inside a node."""
    yield "  ".join(f"{name.upper()} {size(layout, name)}" for name in NAMES)
    spans = None if shape is None else _spans(layout.stage_layers(shape.layers))
    for node in range(min(layout.nodes, NODES)):
        yield _node(layout, node, spans)
    if layout.nodes > NODES:
        yield f"... and {layout.nodes - NODES} more nodes"
    wide = {name: spread(layout, name) for name in NAMES if size(layout, name) > 1}
    inside = [name.upper() for name, nodes in wide.items() if nodes == 1]
    across = [f"{name.upper()} ({nodes} nodes)" for name, nodes in wide.items() if nodes > 1]
    yield f"inside a node: {', '.join(inside) or 'none'}; across: {', '.join(across) or 'none'}"


def fabric(plan: Plan) -> str:
    """What connects the nodes, and what it is expected to reach."""
    link = plan.job.link
    return f"{link.name}, expects {link.gbs:g} GB/s" if link.gbs else link.name


def _node(layout: Layout, node: int, spans: list[str] | None) -> Text:
    first = node * layout.gpus_per_node
    ranks = range(first, first + layout.gpus_per_node)
    stages = sorted({stage_of(layout, rank) for rank in ranks})
    text = Text(f"node {node} {_ranks(layout, ranks)}")
    if layout.pp > 1 or spans:
        text.append("  stage " + ", ".join(map(str, stages)))
    if spans and len(stages) == 1:
        text.append(f", layers {spans[stages[0]]}")
    return text


def _ranks(layout: Layout, ranks: range) -> str:
    """Ranks of a node; brackets are tensor parallel groups.

    >>> _ranks(Layout(nodes=1, gpus_per_node=4, tp=2), range(4))
    '[0 1][2 3]'
    """
    inside = [g for g in groups(layout, "tp") if g[0] in ranks and g[-1] in ranks]
    if len(ranks) > GPUS or not inside or layout.tp == 1:
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return "".join(f"[{' '.join(map(str, group))}]" for group in inside)


def _spans(stage_layers: tuple[int, ...]) -> list[str]:
    """First and last layer of each stage.

    >>> _spans((2, 3))
    ['0-1', '2-4']
    """
    starts = [sum(stage_layers[:place]) for place in range(len(stage_layers))]
    return [
        f"{start}-{start + count - 1}" for start, count in zip(starts, stage_layers, strict=True)
    ]
