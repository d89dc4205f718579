"""Deleted checkpoints; the newest complete one never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchers.storage import checkpoint, disk, retention
from tests.launchers.storage.test_checkpoint import saved


def left(root: Path) -> list[int]:
    return sorted(int(p.name.rpartition("-")[2]) for p in root.glob("checkpoint-*"))


@pytest.mark.parametrize(
    ("sealed", "unsealed", "limit", "keep", "after"),
    [
        ([2, 4, 6], [], 2, [], [4, 6]),
        ([2, 4], [6], 1, [], [4, 6]),  # the next save of 6 replaces the unsealed one
        ([4, 8], [6], 2, [], [4, 8]),
        ([2, 4, 6], [], 1, [2], [2, 6]),
        ([2, 4, 6], [], 2, [6], [4, 6]),
        ([2, 4, 6], [1], None, [], [2, 4, 6]),
        ([], [2, 4], 1, [], [2, 4]),
    ],
)
def test_what_stays(
    tmp_path: Path,
    sealed: list[int],
    unsealed: list[int],
    limit: int | None,
    keep: list[int],
    after: list[int],
) -> None:
    for step in sealed:
        checkpoint.seal(saved(tmp_path, step), step)
    for step in unsealed:
        saved(tmp_path, step)
    retention.apply(tmp_path, limit, [f"checkpoint-{step}" for step in keep])
    assert left(tmp_path) == after


def test_a_damaged_checkpoint_does_not_count_and_stays_as_evidence(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        checkpoint.seal(saved(tmp_path, step), step)
    checkpoint.condemn(tmp_path / "checkpoint-6", "a bit")
    retention.apply(tmp_path, 1)
    assert left(tmp_path) == [4, 6]


def test_a_deletion_that_is_cut_leaves_no_sealed_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (2, 4):
        checkpoint.seal(saved(tmp_path, step), step)

    def fails(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "remove", fails)
    retention.apply(tmp_path, 1)
    (rest,) = checkpoint.rejected(tmp_path)
    assert (rest.path.name, rest.id) == ("checkpoint-2", "checkpoint-unsealed")
