"""Parts of rows added up over four ranks, dealt to them in two ways; run by the training Python.

What NCCL's ring does is written out here, in bf16; our feature is the real one.
"""

import importlib
from typing import Any

import torch
import torch.distributed as dist

from launchers.stop import finished
from tests.launchers.training import edge, megatron_on_cpu
from tests.launchers.training.edge import shown

ROWS, WIDTH = 64, 32


def parts(holders: list[int]) -> Any:
    """Return what this rank's experts made of four packs, in the order of their holders."""
    made = torch.Generator().manual_seed(dist.get_rank())
    packs = torch.randn(len(holders), ROWS, WIDTH, generator=made).bfloat16()
    return packs[holders].flatten(0, 1)


def whole(mine: Any, holders: list[int]) -> Any:
    """Return all packs in their own order, from the one of each rank."""
    found = [torch.empty_like(mine) for _ in holders]
    dist.all_gather(found, mine)
    return torch.stack([found[holders.index(pack)] for pack in range(len(holders))])


def ring(given: Any) -> Any:
    """Return this rank's rows as NCCL's ring adds them: it begins behind the receiver."""
    ranks, me = dist.get_world_size(), dist.get_rank()
    received = torch.empty_like(given)
    dist.all_to_all_single(received, given)
    split = received.view(ranks, ROWS, WIDTH)
    total = split[(me + 1) % ranks]
    for step in range(2, ranks + 1):
        total = total + split[(me + step) % ranks]  # bf16, rounded each time
    return total


def main() -> None:
    """Add up with the packs dealt in two ways, and compare."""
    orders = [[0, 1, 2, 3], [2, 0, 3, 1]]
    group = dist.group.WORLD
    ours = [whole(rank_order.RankOrder.apply(parts(o), group), o) for o in orders]
    rings = [whole(ring(parts(o)), o) for o in orders]
    straight = torch.stack(
        [torch.randn(4, ROWS, WIDTH, generator=torch.Generator().manual_seed(r)) for r in range(4)]
    )
    exact = straight.bfloat16().double().sum(0)
    given = parts(orders[0]).requires_grad_()
    rows = rank_order.RankOrder.apply(given, group)
    (rows.float() * (dist.get_rank() + 1)).sum().backward()
    grads = given.grad.view(4, -1).float().mean(1).tolist()
    shown("the same wherever a pack is held", torch.equal(*ours))
    shown("a ring's is not", not torch.equal(*rings))
    shown("rounded once", torch.equal(ours[0].double(), exact.float().bfloat16().double()))
    shown("gradients are those of the rows", grads == [1.0, 2.0, 3.0, 4.0])


if __name__ == "__main__":
    megatron_on_cpu.enter()
    finished.end_at_exit()
    dist.init_process_group("gloo")
    rank_order: Any = importlib.import_module("launchers.training.experts.rank_order")
    main()
    edge.end()
