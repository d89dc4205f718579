"""What a rank keeps of the pass, and when it is on the workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launchers.training.reference import store
from launchers.training.reference.keep import Batch, Keeper
from launchers.training.reference.store import Pairs, ReferenceDataError


def batch(*numbers: int) -> Batch:
    return Batch([bytes([n]) * 16 for n in numbers], 10 * len(numbers), {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.begin(tmp_path / "s", {})
    return tmp_path / "s"


def test_chosen_and_rejected_are_the_halves_of_a_batch(folder: Path) -> None:
    keeper = Keeper(folder, keeps=True, tells=False)
    keeper.keep([batch(1, 2)], [True], [[-1.0, -2.0, -10.0, -20.0]])
    keeper.flush()
    expected: Pairs = {bytes([1]) * 16: (-1.0, -10.0), bytes([2]) * 16: (-2.0, -20.0)}
    assert keeper.pairs == expected == store.read_parts(folder)


def test_what_repeats_another_rank_costs_no_tokens(folder: Path) -> None:
    keeper = Keeper(folder, keeps=True, tells=False)
    keeper.keep([batch(1), batch(2)], [True, False], [[-1.0, -2.0], [-1.0, -2.0]])
    assert keeper.tokens == 10


def test_a_rank_that_does_not_hold_the_models_end_keeps_nothing(folder: Path) -> None:
    keeper = Keeper(folder, keeps=False, tells=False)
    keeper.keep([batch(1)], [True], [])
    keeper.flush()
    assert (keeper.pairs, store.read_parts(folder)) == ({}, {})


def test_a_flush_follows_when_it_is_due(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(folder, keeps=True, tells=False)
    keeper.keep([batch(1)], [True], [[-1.0, -2.0]])
    assert store.read_parts(folder) == {}
    monkeypatch.setattr("launchers.training.reference.keep.FLUSH", -1.0)
    keeper.keep([batch(2)], [True], [[-1.0, -2.0]])
    assert len(store.read_parts(folder)) == 2


def test_a_missing_number_of_values_is_an_error(folder: Path) -> None:
    keeper = Keeper(folder, keeps=True, tells=False)
    with pytest.raises(ValueError, match="shorter|longer"):
        keeper.keep([batch(1, 2)], [True], [[-1.0, -2.0]])


def test_no_number_ends_the_pass(folder: Path) -> None:
    keeper = Keeper(folder, keeps=True, tells=False)
    with pytest.raises(ReferenceDataError):
        keeper.keep([batch(1)], [True], [[float("nan"), -2.0]])


def test_the_store_is_readable_by_people(folder: Path) -> None:
    store.begin(folder, {"max_length": "8192"})
    assert json.loads((folder / "facts.json").read_text()) == {"max_length": "8192"}
