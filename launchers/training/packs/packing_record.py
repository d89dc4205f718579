"""Report how full the packs of a run are and how balanced the work of its replicas is."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from launchers.training.packs.dealing import Cost, Round, imbalance

FULL = 0.98
"""Fraction of the packs that real tokens should fill."""
EVEN = 0.03
"""Fraction of the time that replicas may wait for each other."""


@dataclass(frozen=True, kw_only=True)
class Packs:
    """The packs of a dataset."""

    texts: Sequence[Sequence[int]]
    """For each row the lengths of its texts in tokens: chosen and rejected."""
    packs: Sequence[Sequence[int]]
    """Row indices of each pack."""
    length: int
    """Tokens of a full pack (``packing_length``)."""
    shared: Sequence[int] = ()
    """For each row the tokens before its rejected text that only the chosen one computes."""

    def tokens(self) -> list[int]:
        """Return the tokens of each pack."""
        return [sum(sum(self.texts[row]) for row in pack) for pack in self.packs]

    def costs(self, cost: Cost) -> list[float]:
        """Return the cost of each pack; attention to shared tokens is ``2 n s`` of its squares."""
        of_row = [cost.of(texts) for texts in self.texts]
        for row, more in enumerate(self.shared):
            of_row[row] += cost.square * 2 * self.texts[row][-1] * more
        return [sum(of_row[row] for row in pack) for pack in self.packs]

    def digest(self) -> str:
        """Return the SHA-256 of lengths and packs: ranks with equal digests see the same data."""
        seen = [[list(row) for row in self.texts], [list(pack) for pack in self.packs]]
        seen += [[list(self.shared)]] if self.shared else []
        return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Report:
    """The report of a run, for its log and ``packing.json``."""

    rows: int
    packs: int
    packing_length: int
    real: float
    """Real tokens over the packs' capacity; a pack that is too long counts as full."""
    too_long: int
    """Packs that consist of a single row longer than ``packing_length``."""
    longest: int
    """Tokens of the longest pack, which determines memory."""
    s_eff: float
    """``sum(L^2) / sum(L)`` over the texts' lengths L."""
    shared: float
    """Tokens of prompts that are not computed again for the rejected text, over all tokens of whole
    texts; 0 unless prompts are computed once."""
    token_imbalance: float
    cost_imbalance: float
    """Fraction of the time that replicas wait for the slowest, in the first epoch."""
    lost_each_epoch: int
    """Packs of an epoch, different ones in each, that do not fill a round of all replicas."""

    def document(self) -> dict[str, object]:
        """Return it as a JSON object, floats rounded to five digits."""
        fields = asdict(self)
        return {k: round(v, 5) if isinstance(v, float) else v for k, v in fields.items()}

    def complaints(self) -> Iterator[str]:
        """Yield what a user could improve, as sentences."""
        if self.too_long:
            yield (
                f"{self.too_long} rows are longer than recipe.args.packing_length "
                f"{self.packing_length} and make packs of up to {self.longest} tokens; set "
                f"packing_length: {self.longest}, or a smaller max_length"
            )
        if self.real < FULL:
            yield (
                f"packs are {self.real:.1%} full, less than {FULL:.0%}; set packing_length to "
                f"many times the rows' mean length ({self.packs} packs now)"
            )
        if self.cost_imbalance > EVEN:
            yield (
                f"replicas wait {self.cost_imbalance:.1%} of the time for the slowest, more than "
                f"{EVEN:.0%}; raise recipe.args.global_batch_size to balance them better"
            )


def report(packs: Packs, cost: Cost, dealt: Sequence[Round]) -> Report:
    """Return the report of a run; ``dealt`` are the rounds of its first epoch."""
    tokens = packs.tokens()
    squares, once = Cost(token=0.0, square=1.0), sum(tokens)
    used = sum(len(each) for batches in dealt for each in batches)
    return Report(
        rows=len(packs.texts),
        packs=len(tokens),
        packing_length=packs.length,
        real=sum(min(n, packs.length) for n in tokens) / (len(tokens) * packs.length),
        too_long=sum(n > packs.length for n in tokens),
        longest=max(tokens),
        s_eff=sum(packs.costs(squares)) / once,
        shared=sum(packs.shared) / (once + sum(packs.shared)),
        token_imbalance=imbalance(dealt, [float(n) for n in tokens]),
        cost_imbalance=imbalance(dealt, packs.costs(cost)),
        lost_each_epoch=len(tokens) - used,
    )
