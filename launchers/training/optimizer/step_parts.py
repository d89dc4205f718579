"""How a fused Adam step is cut: into parts of so few elements and tensors that it can hold them."""

from __future__ import annotations

from collections.abc import Sequence

CHUNK = 2**27
"""Elements of one part: the fp32 copies of its two moments take 1 GiB."""
TENSORS = 8192
"""Weights of one part. Transformer Engine 2.12 has room for 68,985 tensors at a time in one process
(``common/transformer_engine.cpp``, ``TensorAllocator``), and a step takes five a weight: gradient,
weight, two moments, master. An adapter beside 48 layers of 128 experts has 24,600 weights on one
GPU, and ended in its first step."""


def parts(sizes: Sequence[int], limit: int = CHUNK, tensors: int = TENSORS) -> list[slice]:
    """Cut a list of tensors into runs of at most ``limit`` elements; a larger one is alone.

    Args:
        sizes: elements of each.
        limit: elements of one run.
        tensors: of one run.

    >>> parts([4, 3, 9, 1], 7)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    >>> parts([1, 1, 1], 7, 2)
    [slice(0, 2, None), slice(2, 3, None)]
    """
    cuts, total = [0], 0
    for position, size in enumerate(sizes):
        begun = position - cuts[-1]
        if begun == tensors or (begun and total + size > limit):
            cuts.append(position)
            total = 0
        total += size
    return [slice(*pair) for pair in zip(cuts, [*cuts[1:], len(sizes)], strict=True) if sizes]
