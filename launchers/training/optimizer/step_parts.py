"""Divide the tensors of a fused Adam step into parts of bounded elements and number."""

from collections.abc import Sequence

from launchers.plan.memory import CHUNK

TENSORS = 8192
"""Tensors of one part. Transformer Engine 2.12 allocates at most 68,985 tensors at a time per
process (``common/transformer_engine.cpp``, ``TensorAllocator``), and a step takes five per weight:
gradient, weight, two moments, master. An adapter on 48 layers of 128 experts has 24,600 weights on
one GPU and failed in its first step."""


def parts(sizes: Sequence[int], limit: int = CHUNK, tensors: int = TENSORS) -> list[slice]:
    """Divide a list of tensors into parts of at most ``limit`` elements; a larger one is alone.

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
