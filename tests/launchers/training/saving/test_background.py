"""Saves in the background: with megatron-core's strategies on two ranks, and in each phase of one.

A save that does not end leaves the checkpoint before it as the newest complete one.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchers.storage import checkpoint
from scripts.helm import ROOT
from tests.launchers.processes import is_running
from tests.launchers.stages.checkpoints import newest_step
from tests.launchers.training.ranks_on_cpu import reports
from tests.launchers.training_environment import PYTHON, needs_oracle, needs_training
from tests.launchers.waiting import eventually

pytestmark = needs_training
RANKS = "tests.launchers.training.saving.save_ranks"
PHASES = ("copied", "writing", "written", "indexed")


def alone(phase: str, folder: Path, *disk: str) -> tuple[int, list[dict[str, Any]]]:
    """Run one rank; return its exit code and what it printed."""
    module = "tests.launchers.training.saving.one_rank"
    words = [str(PYTHON), "-m", module, phase, str(folder), *disk]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode <= 0, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@needs_oracle
def test_two_saves_hold_what_was_copied_and_load_to_the_last_bit(tmp_path: Path) -> None:
    for found in reports(RANKS, "both", str(tmp_path)):
        assert found["same"] == [True, True]
        assert found["object"] == {"of": found["rank"]}
        assert found["sealed"] == [1, 2] and found["differ"]


def assert_full(error: dict[str, Any]) -> None:
    assert (error["id"], error["code"]) == ("checkpoint-write", 74)
    assert "No space left on device" in error["cause"]


@needs_oracle
def test_a_full_disk_ends_the_rank_that_writes_there(tmp_path: Path) -> None:
    lines = {line["rank"]: line for line in reports(RANKS, "failing", str(tmp_path))}
    assert lines[0]["error"] is None
    assert_full(lines[1]["error"])
    assert newest_step(tmp_path) == 1


@pytest.mark.parametrize("phase", PHASES)
def test_a_death_in_each_phase_leaves_the_checkpoint_before(phase: str, tmp_path: Path) -> None:
    code, lines = alone(phase, tmp_path)
    assert code == -9 and newest_step(tmp_path) == 1
    # the process that wrote does not outlive the rank
    assert eventually(lambda: not any(is_running(line["writer"]) for line in lines))
    assert bool(lines) == (phase == "writing")


def test_each_part_on_the_disk_is_noted_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    code, (line,) = alone("small", tmp_path)
    assert code == 0 and newest_step(tmp_path) == 2
    assert line["flushes"] == 2  # one tensor a save


def test_without_a_failure_both_are_complete(tmp_path: Path) -> None:
    code, (line,) = alone("none", tmp_path)
    assert code == 0 and newest_step(tmp_path) == 2 and line["seconds"] > 0


@pytest.mark.parametrize("disk", ["good", "full", "small", "broken", "damaged"])
def test_a_node_s_disk_may_fail_and_the_workspace_has_all(disk: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    code, _ = alone("none", folder, disk)
    assert code == 0 and newest_step(folder) == 2
    for found in checkpoint.complete(folder):
        assert not checkpoint.verify(found.path, 10).damaged
        sizes, _ = checkpoint.sealed_files(found.path)
        assert set(sizes) == {"iter/.metadata", "iter/__0_0.distcp"}
    own = list((tmp_path / "disk").rglob("__0_0.distcp"))
    assert len(own) == (2 if disk in ("good", "full", "damaged") else 0)
    shards = [path.read_bytes() for path in folder.glob("checkpoint-?/iter/*.distcp")]
    assert len(shards) == 2 and not any(data.startswith(b"x") for data in shards)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    code, (line,) = alone("full", tmp_path)
    assert code == 0 and newest_step(tmp_path) == 1
    assert_full(line)


def test_the_death_of_the_writing_process_is_an_error(tmp_path: Path) -> None:
    _, (_, line) = alone("dead", tmp_path)
    assert (line["id"], line["code"]) == ("checkpoint-write", 74)
    assert "ended with -9" in line["cause"] and newest_step(tmp_path) == 1
