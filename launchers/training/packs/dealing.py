"""How the packs of a step are dealt out to the data-parallel replicas, and how full they are.

ms-swift fills packs well (``swift/dataset/packing.py``, best fit decreasing in chunks of 1000
rows), so that every replica gets as many tokens. But attention's cost grows with the square of a
text: a pack of few long texts takes longer than one of many short ones, and all replicas wait for
it, in every layer where experts exchange tokens. Hence a step keeps the packs that ms-swift's
shuffle gives it, and only who works on which, and when, is chosen here: packs of similar cost are
worked on at the same time. The loss of a step is the same up to the order of summation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launchers.exits import Exit, LaunchError
from launchers.plan import flops
from launchers.plan.model_config import Shape

Round = list[list[int]]
"""A microbatch for each replica, as indices of packs; all replicas work on it at the same time."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What texts cost, in FLOP of a forward pass."""

    token: float
    square: float
    """For each unit of a text's squared length: causal attention."""

    def of(self, texts: Sequence[int]) -> float:
        """Return the cost of texts, given their lengths in tokens."""
        return self.token * sum(texts) + self.square * sum(n * n for n in texts)


def cost(shape: Shape) -> Cost:
    """Return what texts cost in a model; ``flops`` says where the formula is from."""
    return Cost(token=flops.forward(shape, 0), square=flops.parts(shape, 1).attention)


def deal(costs: Sequence[float], *, replicas: int, micro: int) -> list[Round]:
    """Deal packs out so that no round waits long for its slowest replica.

    Rounds of neighbours in order of cost have the least sum of maxima. Within a round the replica
    with least work gets the heaviest pack, so that the sums over the rounds are near, too. The
    heaviest round comes first, when the allocator is still free.

    Args:
        costs: of each pack; as many as fill whole rounds.
        replicas: data-parallel size.
        micro: packs of a microbatch.

    >>> deal([1.0, 9.0, 2.0, 8.0], replicas=2, micro=1)
    [[[1], [3]], [[0], [2]]]
    """
    order = sorted(range(len(costs)), key=lambda pack: (-costs[pack], pack))
    done = [0.0] * replicas
    rounds = []
    for begin in range(0, len(order), replicas * micro):
        batches: Round = [[] for _ in range(replicas)]
        now = [0.0] * replicas
        for part in range(begin, begin + replicas * micro, replicas):
            idle = sorted(range(replicas), key=lambda r: (now[r], done[r], r))
            for replica, pack in zip(idle, order[part : part + replicas], strict=True):
                batches[replica].append(pack)
                now[replica] += costs[pack]
        done = [a + b for a, b in zip(done, now, strict=True)]
        rounds.append(batches)
    return rounds


def epoch(
    order: Sequence[int],
    costs: Sequence[float],
    *,
    replicas: int,
    micro: int,
    batch: int,
    first: int,
) -> Iterator[Round]:
    """Yield the rounds of an epoch, or of what is left of it.

    Args:
        order: indices of the packs that are left, shuffled; what fills no round is left out.
        costs: of all packs, by index.
        replicas: data-parallel size.
        micro: packs of a microbatch.
        batch: packs of a step.
        first: packs that the step still takes which the last epoch has begun; ``batch`` if none.
    """
    usable = len(order) // (replicas * micro) * replicas * micro
    begin, end = 0, first
    while begin < usable:
        step = order[begin : min(end, usable)]
        for batches in deal([costs[p] for p in step], replicas=replicas, micro=micro):
            yield [[step[i] for i in each] for each in batches]
        begin, end = end, end + batch


def refuse_no_step(packs: int, *, replicas: int, micro: int, batch: int, steps: int) -> None:
    """Refuse packs of which no step can be made; ``rows`` can only count the rows, before.

    Args:
        packs: of an epoch.
        replicas: data-parallel size.
        micro: packs of a microbatch.
        batch: packs of a step.
        steps: of the whole run, as ms-swift counts them.

    Raises:
        LaunchError: DATA; megatron-core would end in an assertion without a word, after the load.
    """
    if not steps or packs < replicas * micro:
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: its rows make {packs} packs, and those no batch of "
            f"global_batch_size {batch} (micro_batch_size {micro} x {replicas} replicas a step)",
            "add rows or epochs, or lower recipe.args.global_batch_size or packing_length",
        )


def imbalance(rounds: Sequence[Round], costs: Sequence[float]) -> float:
    """Return the part of the time that replicas wait for the slowest one of each round.

    >>> imbalance([[[0], [1]]], [1.0, 3.0])
    0.5
    """
    sums = [[sum(costs[p] for p in each) for each in batches] for batches in rounds]
    mean = sum(sum(each) / len(each) for each in sums)
    return sum(map(max, sums)) / mean - 1 if mean else 0.0
