"""Errors of a file system never become a deletion, a user's error or another decision."""

from pathlib import Path

import pytest

from launchers.exits import LaunchError
from launchers.storage import marker
from tests.faults import errno_matrix, operations
from tests.faults.errno_matrix import ERRNOS, Cell


def test_no_error_of_the_storage_changes_a_decision() -> None:
    cells = errno_matrix.matrix()
    assert [cell for cell in cells if not cell.is_right] == []
    assert len(cells) >= 2500
    assert {cell.number for cell in cells} == set(ERRNOS)
    assert {cell.call for cell in cells} == {*errno_matrix.READS, *errno_matrix.WRITES}


def test_the_matrix_sees_an_answer_that_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = marker.read

    def guess(folder: Path) -> marker.Marker | None:  # as the code was before
        try:
            return read(folder)
        except LaunchError:
            return None

    monkeypatch.setattr(marker, "read", guess)
    wrong = [cell for cell in _cells("read marker") if not cell.is_right]
    assert {cell.outcome for cell in wrong} == {"other answer"}


def _cells(name: str) -> list[Cell]:
    (operation,) = (each for each in operations.OPERATIONS if each.name == name)
    return errno_matrix.cells_of(operation)
