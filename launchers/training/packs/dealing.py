"""Assign the packs of a step to data-parallel replicas by their cost.

ms-swift fills packs well (``swift/dataset/packing.py``, best fit decreasing in chunks of 1000
rows), so that every replica gets as many tokens. But the cost of attention grows with the square of
a text's length: a pack of few long texts takes longer than one of many short texts, and all
replicas wait for it in every layer in which experts exchange tokens. A step keeps the packs that
ms-swift's shuffle gives it; only the replica and the round of each are chosen here, so that packs
of similar cost are processed at the same time. The loss of a step is the same up to the order of
summation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launchers.exits import Exit, LaunchError
from launchers.plan import flops
from launchers.plan.model_config import ModelConfig

Round = list[list[int]]
"""One microbatch for each replica, as indices of packs; all are processed at the same time."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of texts in FLOP of a forward pass."""

    token: float
    square: float
    """Per unit of a text's squared length: causal attention."""

    def of(self, texts: Sequence[int]) -> float:
        """Return the cost of texts, given their lengths in tokens."""
        return self.token * sum(texts) + self.square * sum(n * n for n in texts)


TOKENS = Cost(token=1.0, square=0.0)
"""Cost of texts in a model of unknown sizes: their tokens."""


def cost(model: ModelConfig) -> Cost:
    """Return the cost of texts in a model; ``plan/flops.py`` derives the formula."""
    return Cost(token=flops.forward(model, 0), square=flops.parts(model, 1).attention)


def deal(costs: Sequence[float], *, replicas: int, micro: int) -> list[Round]:
    """Assign packs so that replicas wait little for the slowest one of each round.

    Rounds of neighbours in order of cost minimise the sum of the rounds' maxima. Within a round the
    replica with the least work so far gets the heaviest pack, so that the sums over the rounds are
    close, too. The heaviest round comes first, while the allocator's memory is not fragmented.
    As many packs as fill whole rounds; ``replicas`` is the data-parallel size.

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
    """Yield the rounds of an epoch, or of the rest of one.

    Args:
        order: indices of the packs that are left, shuffled; an incomplete last round is left out.
        costs: costs of all packs, by index.
        replicas: data-parallel size.
        micro: packs of a microbatch.
        batch: packs of a step.
        first: packs that a step begun in the epoch before still takes; ``batch`` without one.
    """
    usable = len(order) // (replicas * micro) * replicas * micro
    begin, end = 0, first
    while begin < usable:
        step = order[begin : min(end, usable)]
        for batches in deal([costs[p] for p in step], replicas=replicas, micro=micro):
            yield [[step[i] for i in each] for each in batches]
        begin, end = end, end + batch


def refuse_no_step(packs: int, *, replicas: int, micro: int, batch: int, steps: int) -> None:
    """Refuse too few packs for a single step; the check before training only knows the rows.

    Raises:
        LaunchError: DATA; megatron-core would fail an assertion without a message, after loading.
    """
    if not steps or packs < replicas * micro:
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: {packs} packs do not fill one batch of "
            f"global_batch_size {batch} (micro_batch_size {micro} x {replicas} replicas a step)",
            "add rows or epochs, or lower recipe.args.global_batch_size or packing_length",
            id="packs-no-batch",
        )


def imbalance(rounds: Sequence[Round], costs: Sequence[float]) -> float:
    """Return the fraction of the time that replicas wait for the slowest one of each round.

    >>> imbalance([[[0], [1]]], [1.0, 3.0])
    0.5
    """
    sums = [[sum(costs[p] for p in each) for each in batches] for batches in rounds]
    mean = sum(sum(each) / len(each) for each in sums)
    return sum(map(max, sums)) / mean - 1 if mean else 0.0
