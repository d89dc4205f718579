"""Identity of a pair, assignment to ranks, and policies that can serve as the reference."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from launchers.reference.pairs import FIELDS, batches, pair_id, rows_of, tokens
from launchers.reference.policy import policy_is_reference
from tests.launchers.reference.references import arguments

ROW = dict(zip(FIELDS, ([5, 6, 7], [-100, 6, 7], [5, 8], [-100, 8]), strict=True))


@pytest.mark.parametrize("field", FIELDS)
def test_another_token_or_label_is_another_pair(field: str) -> None:
    assert pair_id({**ROW, field: [*ROW[field][:-1], 99]}) != pair_id(ROW)


def test_a_token_that_moves_to_the_next_text_is_another_pair_and_other_keys_are_not() -> None:
    moved = dict(zip(FIELDS, ([5, 6], [7, -100, 6, 7], [5, 8], [-100, 8]), strict=True))
    assert pair_id(moved) != pair_id(ROW)
    assert pair_id({**ROW, "chosen_length": [3], "lengths": [3, 2]}) == pair_id(ROW)


def test_rows_come_alone_or_in_packs() -> None:
    assert rows_of([[ROW, ROW], [ROW]]) == [ROW, ROW, ROW] == rows_of([ROW, ROW, ROW])
    assert tokens(ROW) == 5


@pytest.mark.parametrize(
    ("samples", "micro", "ranks"),
    list(itertools.product([0, 1, 2, 3, 7, 8, 31], [1, 2, 3], [1, 2, 4, 5])),
)
def test_every_sample_counts_once_and_all_ranks_go_alike(
    samples: int, micro: int, ranks: int
) -> None:
    shares = [list(batches(samples, micro, rank, ranks)) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    counted = [i for share in shares for batch, counts in share if counts for i in batch]
    assert sorted(counted) == list(range(samples))
    assert all(0 < len(batch) <= micro for share in shares for batch, _ in share)


@pytest.mark.parametrize(
    ("changed", "steps", "is_reference"),
    [
        ({}, 0, True),
        ({"ref_model": None}, 0, True),
        ({"mcore_model": "/w/mcore/m", "mcore_ref_model": "/w/mcore/m"}, 0, True),
        ({"model": "/w/runs/r/checkpoints/checkpoint-10"}, 0, False),
        ({"mcore_model": "/w/runs/r/checkpoints/checkpoint-10"}, 0, False),
        ({"mcore_model": "/w/checkpoint-10", "mcore_ref_model": "/w/mcore/m"}, 0, False),
        ({"mcore_ref_model": "/w/mcore/m"}, 0, False),
        ({}, 1, False),
    ],
)
def test_a_fresh_policy_is_the_reference_and_that_of_a_checkpoint_is_not(
    tmp_path: Path, changed: dict[str, Any], steps: int, is_reference: bool
) -> None:
    assert policy_is_reference(arguments(tmp_path, **changed), steps) == is_reference
