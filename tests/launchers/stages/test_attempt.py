from __future__ import annotations

from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.stages.attempt import keep_identity, next_attempt
from launchers.storage.checkpoint import seal


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(root=tmp_path, run="r")


def with_checkpoint(work: Workspace, step: int) -> None:
    folder = work.checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    seal(folder, step)


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
    with pytest.raises(LaunchError, match="checkpoints of different model, recipe") as no:
        keep_identity(work, {"recipe": "c"})
    assert no.value.code == Exit.CONFIG


def test_checkpoints_of_unknown_inputs_are_not_resumed(work: Workspace) -> None:
    with_checkpoint(work, 5)
    with pytest.raises(LaunchError, match="checkpoints of different recipe"):
        keep_identity(work, {"recipe": "a"})
