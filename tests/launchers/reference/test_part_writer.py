"""Results that a rank keeps of the pass, and the time at which they are on the workspace."""

from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.reference import store
from launchers.reference.part_writer import Batch, PartWriter
from launchers.reference.store import Pairs


def batch(*numbers: int) -> Batch:
    return Batch([bytes([n]) * 16 for n in numbers], 10 * len(numbers), {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.begin(tmp_path / "s", {})
    return tmp_path / "s"


@pytest.fixture
def writer(folder: Path) -> PartWriter:
    return PartWriter(folder, keeps=True, logs_progress=False)


def test_chosen_and_rejected_are_the_halves_of_a_batch(folder: Path, writer: PartWriter) -> None:
    writer.keep([batch(1, 2)], [True], [[-1.0, -2.0, -10.0, -20.0]])
    writer.flush()
    expected: Pairs = {bytes([1]) * 16: (-1.0, -10.0), bytes([2]) * 16: (-2.0, -20.0)}
    assert writer.pairs == expected == store.read_parts(folder)


def test_what_repeats_another_rank_costs_no_tokens(writer: PartWriter) -> None:
    writer.keep([batch(1), batch(2)], [True, False], [[-1.0, -2.0], [-1.0, -2.0]])
    assert writer.tokens == 10


def test_a_rank_that_does_not_hold_the_models_end_keeps_nothing(folder: Path) -> None:
    writer = PartWriter(folder, keeps=False, logs_progress=False)
    writer.keep([batch(1)], [True], [])
    writer.flush()
    assert (writer.pairs, store.read_parts(folder)) == ({}, {})


def test_a_flush_follows_when_it_is_due(
    folder: Path, writer: PartWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.keep([batch(1)], [True], [[-1.0, -2.0]])
    assert store.read_parts(folder) == {}
    monkeypatch.setattr("launchers.reference.part_writer.FLUSH_SECONDS", -1.0)
    writer.keep([batch(2)], [True], [[-1.0, -2.0]])
    assert len(store.read_parts(folder)) == 2


def test_a_missing_number_of_values_is_an_error(writer: PartWriter) -> None:
    with pytest.raises(ValueError, match="shorter|longer"):
        writer.keep([batch(1, 2)], [True], [[-1.0, -2.0]])


def test_no_number_ends_the_pass(writer: PartWriter) -> None:
    with pytest.raises(LaunchError) as refusal:
        writer.keep([batch(1)], [True], [[float("nan"), -2.0]])
    assert refusal.value.code == Exit.DATA
