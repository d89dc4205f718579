"""A checkpoint's seal, with transformers' own trainer."""

import json
import os
from pathlib import Path

import pytest

from launchers.progress.trained import Trained, read
from launchers.storage import checkpoint
from tests.launchers import warm
from tests.launchers.training_environment import PYTHON, needs_training

pytestmark = needs_training


@pytest.mark.parametrize(
    ("limit", "kept"), [(1, ["checkpoint-3"]), (2, ["checkpoint-2", "checkpoint-3"])]
)
def test_the_last_sealed_checkpoint_stays_until_the_next_is_sealed(
    tmp_path: Path, limit: int, kept: list[str]
) -> None:
    said = trained(tmp_path, str(limit))
    assert json.loads(said.splitlines()[-1]) == {"left": [0, 1, 2], "kept": kept}


def test_a_save_does_not_write_into_files_that_an_earlier_leader_may_have_open(
    tmp_path: Path,
) -> None:
    old, held = tmp_path / "checkpoint-3" / "optimizer.pt", tmp_path / "held"
    old.parent.mkdir()
    old.write_text("of another process")
    os.link(old, held)
    trained(tmp_path, "3")
    assert held.read_text() == "of another process"
    assert checkpoint.complete(tmp_path)[0].step == 3


@pytest.mark.parametrize(
    ("end", "record"),
    [
        ("finish", Trained(step=3, planned=3, reason="finished")),
        ("early", Trained(step=2, planned=3, reason="early stop")),
        ("exit", None),
    ],
)
def test_a_training_that_ends_by_itself_is_recorded(
    tmp_path: Path, end: str, record: Trained | None
) -> None:
    trained(tmp_path, "2", end)
    assert read(tmp_path) == record


def trained(folder: Path, *words: str) -> str:
    """Return what a Python prints without ms-swift, which patches the trainer."""
    module = "tests.launchers.training.seal_run"
    env = {"DPO_ATTEMPT_FOLDER": str(folder), "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    return warm.printed("-m", module, folder, *words, program=PYTHON, **env)
