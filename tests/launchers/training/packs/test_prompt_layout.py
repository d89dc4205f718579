"""Costs and counts of packs whose prompts are computed once."""

from launchers.reference.pairs import SHARED, tokens
from launchers.training.collect.reading import Reading, Tally
from launchers.training.packs.dealing import Cost
from launchers.training.packs.packing_record import Packs

WHOLE, SHORT, PROMPT = [30, 25], [30, 5], 20


def area(queries: int, keys: int) -> float:
    """Return the pairs of query and key of a causal text, both of which end with its last token."""
    return queries * (keys - queries) + queries**2 / 2


def test_squares_count_what_attention_computes() -> None:
    tally = Tally()
    batch = {"seq_lens": [30, 40, 5, 8], SHARED: [20, 32]}
    next(Reading(iter([batch]), tally))
    wanted = area(30, 30) + area(40, 40) + area(5, 25) + area(8, 40)
    assert (tally.tokens, tally.squares) == (83, 2 * wanted)


def test_packs_cost_what_attention_computes() -> None:
    packs = Packs(texts=[SHORT, WHOLE], packs=[[0], [1]], length=64, shared=[PROMPT, 0])
    found = packs.costs(Cost(token=1.0, square=0.5))
    assert found == [35 + area(30, 30) + area(5, 25), 55 + area(30, 30) + area(25, 25)]


def test_a_pair_has_the_tokens_that_are_computed() -> None:
    row = {"chosen_input_ids": [1] * 30, "rejected_input_ids": [1] * 25, SHARED: PROMPT}
    assert tokens(row) == sum(SHORT)
