"""Parameters by name over all ranks, and the shards that make them whole. Pure."""

import re
from collections.abc import Iterable

_EXPERT = (
    re.compile(r"(?P<head>.*\.experts)\.local_experts\.(?P<number>\d+)\.(?P<tail>.*)"),
    re.compile(r"(?P<head>.*\.experts)\.(?P<tail>linear_fc[12]\.weight)(?P<number>\d+)"),
)
"""An expert's weights in megatron-core 0.18: of separate and of grouped products
(``transformer/moe/experts.py: SequentialMLP, TEGroupedMLP``)."""
_NUMBER = re.compile(r"\.(layers|experts)\.\d+\.")


def whole(name: str, expert_rank: int, local_experts: int) -> str:
    """Return the name of a parameter that is the same for every layout of experts.

    >>> whole("decoder.layers.0.mlp.experts.linear_fc1.weight3", 1, 8)
    'decoder.layers.0.mlp.experts.11.linear_fc1.weight'
    >>> whole("decoder.layers.0.mlp.experts.local_experts.3.linear_fc1.weight", 1, 8)
    'decoder.layers.0.mlp.experts.11.linear_fc1.weight'
    >>> whole("decoder.layers.0.mlp.router.weight", 1, 8)
    'decoder.layers.0.mlp.router.weight'
    """
    for pattern in _EXPERT:
        if found := pattern.fullmatch(name):
            number = int(found["number"]) + expert_rank * local_experts
            return f"{found['head']}.{number}.{found['tail']}"
    return name


def kind(name: str) -> str:
    """Return what a parameter has in common with those of other layers and experts.

    >>> kind("decoder.layers.0.mlp.experts.11.linear_fc1.weight")
    'mlp.experts.linear_fc1.weight'
    >>> kind("embedding.word_embeddings.weight")
    'embedding.word_embeddings.weight'
    """
    bare = _NUMBER.sub(lambda found: "." if found[1] == "layers" else ".experts.", name)
    return bare.removeprefix("decoder.") if ".layers." in name else bare


def tiling(parts: Iterable[tuple[int, int]], elements: int) -> str:
    """Return why parts do not cover a parameter once; empty if they do.

    ``parts``: begin and end in the flattened parameter, in any order.

    >>> tiling([(4, 6), (0, 4)], 6), tiling([(0, 4)], 6), tiling([(0, 4), (2, 6)], 6)
    ('', 'elements 4 to 6 are missing', 'elements 2 to 4 are there twice')
    """
    at = 0
    for begin, end in sorted(parts):
        if begin > at:
            return f"elements {at} to {begin} are missing"
        if begin < at:
            return f"elements {begin} to {at} are there twice"
        at = end
    return "" if at == elements else f"elements {at} to {elements} are missing"
