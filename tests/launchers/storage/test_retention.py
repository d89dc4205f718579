"""Deleted checkpoints; the newest complete one never is."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from launchers.storage import checkpoint, disk, retention
from launchers.system import lookup
from tests.launchers.storage.test_checkpoint import saved, sealed


def cut(root: Path, step: int) -> Path:
    """Leave what a save of this run has left that was killed before its seal."""
    retention.prepare(root / f"checkpoint-{step}")
    return saved(root, step)


def left(root: Path) -> list[int]:
    return sorted(step for p in root.iterdir() if (step := checkpoint.step_of(p)) >= 0)


@pytest.mark.parametrize(
    ("whole", "cuts", "limit", "keep", "after"),
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
    tmp_path: Path, whole: list[int], cuts: list[int], limit: int, keep: list[int], after: list[int]
) -> None:
    sealed(tmp_path, *whole)
    for step in cuts:
        cut(tmp_path, step)
    retention.apply(tmp_path, limit, [f"checkpoint-{step}" for step in keep])
    assert left(tmp_path) == after


def test_a_damaged_checkpoint_does_not_count_and_stays_as_evidence(tmp_path: Path) -> None:
    sealed(tmp_path, 2, 4, 6)
    checkpoint.condemn(tmp_path / "checkpoint-6", "a bit")
    retention.apply(tmp_path, 1)
    assert left(tmp_path) == [4, 6]


def test_a_deletion_that_is_cut_leaves_no_sealed_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(tmp_path, 2, 4)

    def fails(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "remove", fails)
    retention.apply(tmp_path, 1)
    rest = checkpoint.inspect(tmp_path / "checkpoint-2")
    assert isinstance(rest, checkpoint.Rejected) and rest.id == "checkpoint-unsealed"
    monkeypatch.undo()
    retention.apply(tmp_path, 1)
    assert left(tmp_path) == [4]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Return the folder of a run with three complete checkpoints and one past attempt."""
    return run(tmp_path / "runs" / "dpo-42", "a", (2, 4, 6))


def run(home: Path, recipe: str, steps: tuple[int, ...]) -> Path:
    start = home / "attempts" / "1" / checkpoint.START
    start.parent.mkdir(parents=True)
    start.write_text("{}")
    (home / "inputs.json").write_text(json.dumps({"recipe": recipe}))
    sealed(home / "checkpoints", *steps)
    return home / "checkpoints"


@pytest.mark.parametrize("kind", ["sealed", "torn seal", "cut", "without a mark", "torn mark"])
def test_what_a_user_has_moved_in_stays(checkpoints: Path, tmp_path: Path, kind: str) -> None:
    other = run(tmp_path / "runs" / "dpo-7", "b", (3,)) / "checkpoint-3"
    if kind == "torn seal":
        (other / checkpoint.COMPLETE).write_text("{")
    elif kind != "sealed":
        checkpoint.unseal(other)
    if kind == "without a mark":  # also what an earlier version has left
        (other / checkpoint.SAVING).unlink()
    elif kind == "torn mark":
        (other / checkpoint.SAVING).write_text("{")
    other.rename(checkpoints / "checkpoint-3")
    retention.apply(checkpoints, 2)
    assert left(checkpoints) == [3, 4, 6]


@pytest.mark.parametrize("kind", ["sealed", "cut"])
def test_a_users_copy_of_this_runs_checkpoint_stays(checkpoints: Path, kind: str) -> None:
    source = cut(checkpoints, 5) if kind == "cut" else checkpoints / "checkpoint-4"
    shutil.copytree(source, checkpoints / "checkpoint-3")
    retention.apply(checkpoints, None)
    assert left(checkpoints) == [2, 3, 4, 6]


def test_a_model_that_a_user_has_merged_stays(checkpoints: Path) -> None:
    theirs, own = (checkpoint.merged(checkpoints / f"checkpoint-{step}") for step in (2, 4))
    for each in (theirs, own):
        each.mkdir()
        (each / "model.safetensors").write_bytes(b"w")
    checkpoint.seal(own, 4)
    retention.apply(checkpoints, 1)
    assert theirs.is_dir() and not own.exists() and left(checkpoints) == [6]


@pytest.mark.parametrize("is_saved_again", [False, True])
def test_what_a_user_has_put_into_a_checkpoint_is_kept(
    checkpoints: Path, is_saved_again: bool
) -> None:
    folder = checkpoints / "checkpoint-2"
    for each in (folder, checkpoint.merged(folder)):
        (each / "eval").mkdir(parents=True)
        (each / "model.safetensors").write_bytes(b"w")
        checkpoint.seal(each, 2)
        (each / "eval" / "mine.json").write_text("mine")
    if is_saved_again:
        retention.prepare(folder)
    else:
        retention.apply(checkpoints, 1)
    assert not (folder / "model.safetensors").exists()
    kept = {path.parent.name.partition(".")[0] for path in checkpoints.rglob("mine.json")}
    found = sorted(path.parts[-3].partition(".kept-")[0] for path in checkpoints.rglob("mine.json"))
    assert kept == {"eval"} and found == ["checkpoint-2", "checkpoint-2-merged"]


@pytest.mark.parametrize("how", ["a save", "a seal of an earlier version"])
def test_an_unsealed_folder_of_this_run_is_its_leftover(checkpoints: Path, how: str) -> None:
    folder = cut(checkpoints, 5)
    if how != "a save":
        checkpoint.seal(folder, 5)
        (folder / checkpoint.SAVING).unlink()
        checkpoint.unseal(folder)
    retention.apply(checkpoints, None)
    assert left(checkpoints) == [2, 4, 6]


@pytest.mark.parametrize("part", ["", "iter", "merged"])
def test_neither_a_link_nor_its_target_is_touched(
    checkpoints: Path, tmp_path: Path, part: str
) -> None:
    folder = checkpoints / "checkpoint-2"
    moved = checkpoint.merged(folder) if part == "merged" else folder / part
    moved.mkdir(exist_ok=True)
    archive = moved.rename(tmp_path / "archive")
    (archive / checkpoint.COMPLETE).touch()
    before = sorted(archive.iterdir())
    moved.symlink_to(archive)
    retention.apply(checkpoints, 1)
    assert sorted(archive.iterdir()) == before
    assert moved.is_symlink() and folder.exists()
    assert not (checkpoints / "checkpoint-4").exists()


def test_a_folder_that_stays_is_named_once(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Path.stat

    def stale(path: Path, **named: bool) -> os.stat_result:
        if path.parent.name == "checkpoint-2":
            raise OSError(116, "Stale file handle", str(path))
        return real(path, **named)

    monkeypatch.setattr(Path, "stat", stale)
    monkeypatch.setattr(retention, "LOOKUP_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            retention.apply(checkpoints, 1)
    assert left(checkpoints) == [2, 6]
    (said,) = (line for line in caplog.messages if lookup.ID in line)
    assert "checkpoint-2" in said and "ESTALE" in said


def test_what_is_deleted_is_gone_for_good_before_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a crash can leave files of a subfolder without the mark, which no one deletes."""
    folder = saved(tmp_path, 2)
    checkpoint.mark(folder)
    flushed: list[tuple[str, bool]] = []
    marked = (folder / checkpoint.SAVING).exists
    monkeypatch.setattr(retention, "flush", lambda path: flushed.append((path.name, marked())))
    retention.remove(folder)
    assert {("iter", True), (folder.name, True)} <= {*flushed}
    assert not folder.exists()
