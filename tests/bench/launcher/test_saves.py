"""Seals and marks of a run's checkpoints, and what is said to be wrong with a result."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from launchers.storage import checkpoint, retention
from tests.bench.launcher import run as launch_run
from tests.bench.launcher import saves
from tests.bench.launcher.run import Run
from tests.bench.launcher.saves import MARKED, NEITHER, SEALED

KEPT: dict[str, Any] = {
    "exit": 0,
    "every": 4,
    "steps": 12,
    "newest": 4,
    "marks": {"checkpoint-4": SEALED, "checkpoint-8": MARKED},
    "marks_at_end": {"checkpoint-8": SEALED, "checkpoint-12": SEALED, "checkpoint-6": NEITHER},
    "deleted": ["checkpoint-7", "checkpoint-4"],
    "resumed": {"first": 5, "same_state": {4: True}, "first_apart": 0.0},
    "shards_differ": True,
    "export": 10,
}


GANG = """
import subprocess, sys, time
from pathlib import Path
from launchers import logs
from launchers.storage import checkpoint, retention
home = Path(sys.argv[1])
logs.configure()
def begin(step):
    folder = home / "checkpoints" / f"checkpoint-{step}"
    retention.prepare(folder)
    (folder / "__0_0.distcp").write_bytes(b"state of %d" % step)
    return folder
def save(step):
    checkpoint.seal(begin(step), step)
    retention.apply(home / "checkpoints", 2)
save(4)
begin(8)
rank = subprocess.Popen(["sleep", "60"])
(home / "rank").write_text(str(rank.pid))
rank.wait()
while not (home / "checkpoints" / "checkpoint-6" / "__0_0.distcp").exists():
    time.sleep(0.1)
save(8)
save(12)
(home / "export").mkdir()
(home / "export" / "model.safetensors").write_bytes(b"model")
"""
"""Saves with the launcher's functions, as two attempts do, and a process that stands for a rank."""


class Gang(Run):
    def command(self) -> list[str]:
        return [sys.executable, "-c", GANG, str(self.home)]


def test_a_rank_is_killed_in_a_save_and_what_follows_is_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Gang(name="r", manifest=tmp_path / "m", log=tmp_path / "log", workspace=tmp_path)
    pid = run.home / "rank"
    run.home.mkdir(parents=True)

    def ranks(_: int) -> list[int]:
        launch_run.wait_for("a rank", lambda: pid.exists() and bool(pid.read_text()), 20)
        return [int(pid.read_text())]

    monkeypatch.setattr(launch_run, "ranks", ranks)
    words = ["t", "r", "--gpus", "1", "--profile", "f", "--every", "4", "--steps", "12"]
    record: dict[str, Any] = {"every": 4, "steps": 12, "resumed": KEPT["resumed"]}
    saves.interrupted(run, saves.arguments([*words, "--limit", "40"]), record)
    assert saves.complaints(record) == []
    assert record["left"] == ["__0_0.distcp"] and record["unlinked_s"] < 40


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Return the folder of a run with a sealed checkpoint 4 and a cut save of step 8."""
    folder = tmp_path / "runs" / "r" / "checkpoints"
    for step in (4, 8):
        made = folder / f"checkpoint-{step}"
        retention.prepare(made)
        (made / "__0_0.distcp").write_bytes(b"state")
    checkpoint.seal(folder / "checkpoint-4", 4)
    return folder


def test_seal_and_mark_of_each_folder_are_read(checkpoints: Path) -> None:
    (checkpoints / "checkpoint-2").mkdir()
    assert saves.marks(checkpoints) == {
        "checkpoint-2": "neither",
        "checkpoint-4": "sealed",
        "checkpoint-8": "marked",
    }


def test_rotation_deletes_the_added_folder_with_the_mark_of_the_run_alone(
    checkpoints: Path,
) -> None:
    saves.add_leftovers(checkpoints / "checkpoint-8")
    checkpoint.seal(checkpoints / "checkpoint-8", 8)
    retention.apply(checkpoints, 2)
    assert [*saves.marks(checkpoints)] == ["checkpoint-4", "checkpoint-6", "checkpoint-8"]


def test_the_digests_of_a_seal_tell_two_checkpoints_apart(checkpoints: Path) -> None:
    first, second = checkpoints / "checkpoint-4", checkpoints / "checkpoint-8"
    checkpoint.seal(second, 8)
    assert saves.digests(first) == saves.digests(second) != set()
    (second / "__0_0.distcp").write_bytes(b"other")
    checkpoint.seal(second, 8)
    assert not saves.digests(first) & saves.digests(second)


def test_a_run_as_wanted_has_no_complaint() -> None:
    assert saves.complaints(KEPT) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"marks": {"checkpoint-4": "marked"}}, "seals and marks after the kill"),
        ({"marks_at_end": {"checkpoint-12": "marked"}}, "seals and marks at the end"),
        ({"deleted": ["checkpoint-7", "checkpoint-4", "checkpoint-6"]}, "rotation deleted"),
        ({"error": "no removal of what the cut save left within 9 s"}, "no removal of"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], complaint: str) -> None:
    (said,) = saves.complaints({**KEPT, **wrong})
    assert said.startswith(complaint)


def test_a_result_that_has_only_an_error_is_complete() -> None:
    record = json.loads(json.dumps({"error": "no training rank", "every": 4, "steps": 12}))
    assert saves.complaints(record)[0] == "no training rank"
