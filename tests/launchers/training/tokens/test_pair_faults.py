"""Faults of encoded pairs; rows of tasks without pairs have none."""

from typing import Any

import pytest

from launchers.training.tokens.pair_faults import NO_ANSWER, faults, unlabelled

SAME = {"chosen_input_ids": [1, 2], "rejected_input_ids": [1, 2]}


def test_a_pair_with_equal_sides_is_named() -> None:
    assert [*faults(SAME, [])] == ["equal sides"]


@pytest.mark.parametrize(
    "encoded",
    [
        {"input_ids": [1, 2], "labels": [-100, 2]},
        {**SAME, "chosen_labels": [-100, 2], "label": True},
    ],
    ids=["sft", "kto"],
)
def test_a_row_of_a_task_without_pairs_has_no_fault(encoded: dict[str, Any]) -> None:
    assert [*faults(encoded, [])] == []


@pytest.mark.parametrize(
    "encoded", [{"labels": [-100]}, {"chosen_labels": [-100], "label": True, **SAME}]
)
def test_a_row_without_a_token_to_train_on_is_named(encoded: dict[str, Any]) -> None:
    assert [*faults(encoded, [])] == [NO_ANSWER]


@pytest.mark.parametrize("label", [None, "true", -1, 3, [True]])
def test_labels_of_kto_are_true_or_false(label: object) -> None:
    row = {"messages": [{"role": "assistant", "content": "a"}], "label": label}
    assert "neither true nor false" in unlabelled(row)
    assert not unlabelled({**row, "label": 0})
    assert "does not end with" in unlabelled({"messages": [{"role": "user"}], "label": True})
