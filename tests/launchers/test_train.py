from __future__ import annotations

import threading
from pathlib import Path

import pytest

from launchers.checkpoint import seal
from launchers.exits import Exit, LaunchError
from launchers.gang import Bond
from launchers.train import _failure, keep_identity, next_attempt
from launchers.workspace import Workspace


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(root=tmp_path, run="r")


def with_checkpoint(work: Workspace, step: int) -> None:
    folder = work.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    seal(folder, step)


def logs(folder: Path, *texts: str) -> Path:
    for rank, text in enumerate(texts):
        log = folder / "node-0" / "none_x" / "attempt_0" / str(rank) / "stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
    return folder / "node-0"


def test_attempts_count_up_whatever_kubernetes_says(work: Workspace) -> None:
    assert next_attempt(work).number == 1
    for number in ("1", "2", "10", "notes"):
        (work.attempts / number).mkdir(parents=True)
    assert next_attempt(work).number == 11


def test_an_attempt_resumes_from_the_newest_complete_checkpoint(work: Workspace) -> None:
    with_checkpoint(work, 5)
    with_checkpoint(work, 10)
    (work.checkpoints / "checkpoint-10" / "model.safetensors").write_bytes(b"")
    resume = next_attempt(work).resume
    assert resume is not None
    assert resume.step == 5


def test_inputs_may_change_until_there_is_a_checkpoint(work: Workspace) -> None:
    keep_identity(work, {"recipe": "a", "model": "m"})
    keep_identity(work, {"recipe": "b", "model": "m"})
    with_checkpoint(work, 5)
    keep_identity(work, {"recipe": "b", "model": "m"})
    with pytest.raises(LaunchError, match="made with another model, recipe") as no:
        keep_identity(work, {"recipe": "c"})
    assert no.value.code == Exit.CONFIG


def test_the_cause_of_any_local_rank_counts(tmp_path: Path) -> None:
    ranks = logs(tmp_path, "RuntimeError: NCCL error\n", "ValueError: bad layout\n")
    error = _failure(ranks, Bond(), started=False)
    assert (error.code, error.cause) == (Exit.CONFIG, "ValueError: bad layout")


def test_a_cascade_waits_for_the_culprits_name(tmp_path: Path) -> None:
    ranks = logs(tmp_path, "RuntimeError: NCCL error\n")
    bond = Bond()
    threading.Timer(0.2, bond.lose, ("rank 3", "out of disk")).start()
    error = _failure(ranks, bond, started=True)
    assert error.code == Exit.PEER
    assert error.cause == "rank 3 ended: out of disk"


def test_an_end_without_an_exception_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchers.train.ECHO", 0.0)
    error = _failure(logs(tmp_path, "no exception"), Bond(), started=True)
    assert error.code == Exit.PEER
    assert str(tmp_path / "node-0") in error.remedy
