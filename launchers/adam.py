"""How a fused Adam step is cut: into parts of so many elements that its copies stay small."""

from __future__ import annotations

from collections.abc import Sequence

CHUNK = 2**27
"""Elements of one part: the fp32 copies of its two moments take 1 GiB."""


def parts(sizes: Sequence[int], limit: int = CHUNK) -> list[slice]:
    """Cut a list of tensors into runs of at most ``limit`` elements; a larger one is alone.

    >>> parts([4, 3, 9, 1], 7)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    cuts, total = [0], 0
    for position, size in enumerate(sizes):
        if position > cuts[-1] and total + size > limit:
            cuts.append(position)
            total = 0
        total += size
    return [slice(*pair) for pair in zip(cuts, [*cuts[1:], len(sizes)], strict=True) if sizes]
