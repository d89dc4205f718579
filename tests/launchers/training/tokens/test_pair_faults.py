"""Faults of encoded pairs; rows of tasks without pairs have none."""

from __future__ import annotations

from typing import Any

import pytest

from launchers.training.tokens.pair_faults import faults

SAME = {"chosen_input_ids": [1, 2], "rejected_input_ids": [1, 2]}


def test_a_pair_with_equal_sides_is_named() -> None:
    assert [*faults(SAME, [])] == ["equal sides"]


@pytest.mark.parametrize(
    "encoded",
    [{"input_ids": [1, 2], "labels": [-100, 2]}, {**SAME, "label": True}],
    ids=["sft", "kto"],
)
def test_a_row_of_a_task_without_pairs_has_no_fault(encoded: dict[str, Any]) -> None:
    assert [*faults(encoded, [])] == []
