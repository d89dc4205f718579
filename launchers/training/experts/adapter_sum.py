"""Add an adapter's outputs to a layer's with one kernel, which reads and writes the sum once.

The product with B is as large as the layer's output, but of r columns: moving it takes all of its
time. Upstream writes it, reads and writes it to scale it, and reads it again for the sum. Values
are rounded where upstream rounds them: the product, the scaled product, the sum
(``mcore_bridge/tuners/lora.py``). With 131,072 rows of 128 experts, rank 8, on an H100: 0.34
instead of 0.64 ms for 1,536 columns, 0.46 instead of 0.85 ms for 2,048, equal bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS, COLUMNS = 64, 128
"""The block of the sum that is computed at a time."""
PROGRAMS = 1_024
"""The least number of programs that keeps a GPU's 132 multiprocessors busy."""
WIDEST = 256
"""The largest rank whose blocks fit into a multiprocessor's shared memory."""


@triton.jit  # type: ignore[untyped-decorator]
def _add(
    sums: tl.tensor,
    outputs: tl.tensor,
    low: tl.tensor,
    side: tl.tensor,
    ends: tl.tensor,
    width: tl.tensor,
    rank: tl.tensor,
    of_expert: tl.tensor,
    of_rank: tl.tensor,
    of_column: tl.tensor,
    scaling: tl.tensor,
    scaled: tl.constexpr,
    experts: tl.constexpr,
    numbers: tl.constexpr,
    ranks: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
) -> None:
    # the program's rows: a block of one expert's
    number = tl.arange(0, numbers)
    stops = tl.load(ends + number, mask=number < experts, other=0)
    starts = tl.load(ends + number - 1, mask=(number > 0) & (number < experts), other=0)
    blocks = (stops - starts + rows - 1) // rows
    expert = tl.sum((tl.cumsum(blocks, 0) <= tl.program_id(0)).to(tl.int32), 0)
    if expert >= experts:
        return
    earlier = tl.sum(tl.where(number < expert, blocks, 0), 0)
    start = tl.sum(tl.where(number == expert, starts, 0), 0)
    stop = tl.sum(tl.where(number == expert, stops, 0), 0)
    row = (start + (tl.program_id(0) - earlier) * rows + tl.arange(0, rows)).to(tl.int64)[:, None]
    # tensor cores need 16 columns: those above the rank are zero
    part = tl.arange(0, ranks)
    few = tl.load(low + row * rank + part, mask=(row < stop) & (part < rank), other=0.0)
    side += expert.to(tl.int64) * of_expert + part[:, None] * of_rank
    for first in range(tl.program_id(1) * columns, width, tl.num_programs(1) * columns):
        column = first + tl.arange(0, columns)[None, :]
        matrix = tl.load(
            side + column * of_column, mask=(part[:, None] < rank) & (column < width), other=0.0
        )
        place, inside = row * width + column, (row < stop) & (column < width)
        old = tl.load(outputs + place, mask=inside, other=0.0)
        added = tl.dot(few, matrix).to(old.dtype)
        if scaled:
            added = (added.to(tl.float32) * scaling).to(old.dtype)
        total = old.to(tl.float32) + added.to(tl.float32)
        tl.store(sums + place, total.to(old.dtype), mask=inside)


def add(
    sums: torch.Tensor,
    outputs: torch.Tensor,
    low: torch.Tensor,
    side: torch.Tensor,
    ends: torch.Tensor,
    scaling: float = 1.0,
) -> torch.Tensor:
    """Return sums, filled with outputs + (low side) scaling.

    Args:
        sums: [tokens, n], contiguous; may be ``outputs``.
        outputs: [tokens, n], contiguous, sorted by expert.
        low: [tokens, r], contiguous.
        side: [experts, r, n].
        ends: where each expert's rows end, int32 [experts].
        scaling: of the adapter.
    """
    (tokens, width), (experts, rank, _) = outputs.shape, side.shape
    if rank > WIDEST:
        return torch.add(outputs, torch._grouped_mm(low, side, offs=ends) * scaling, out=sums)
    if tokens:
        blocks = triton.cdiv(tokens, ROWS) + experts  # at most
        apart = min(triton.cdiv(PROGRAMS, blocks), triton.cdiv(width, COLUMNS))
        _add[blocks, apart](
            *(sums, outputs, low, side, ends, width, rank, *side.stride(), scaling),
            scaled=scaling != 1.0,
            experts=experts,
            numbers=triton.next_power_of_2(experts),
            ranks=max(16, triton.next_power_of_2(rank)),
            rows=ROWS,
            columns=COLUMNS,
            num_warps=4,
            num_stages=2,
        )
    return sums
