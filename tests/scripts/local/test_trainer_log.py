"""The trainer's log is read while it grows."""

import json
from pathlib import Path

from scripts.local.trainer_log import Follower, read_steps


def row(number: int, loss: float) -> str:
    return json.dumps({"loss": loss, "global_step/max_steps": f"{number}/9"}) + "\n"


def test_a_step_trained_again_after_a_resume_counts_once_with_its_last_value(
    tmp_path: Path,
) -> None:
    log = tmp_path / "logging.jsonl"
    log.write_text(row(1, 0.9) + row(2, 0.8) + '{"train_runtime": 1}\n' + row(2, 0.7))
    assert [(step.number, step.row["loss"]) for step in read_steps(log)] == [(1, 0.9), (2, 0.7)]


def test_no_log_has_no_steps(tmp_path: Path) -> None:
    assert read_steps(tmp_path / "absent") == []
    assert Follower(tmp_path / "absent").newest() is None


def test_a_follower_returns_only_new_and_complete_lines(tmp_path: Path) -> None:
    log = tmp_path / "logging.jsonl"
    log.write_text(row(1, 0.9))
    follower = Follower(log)
    assert follower.newest() is None
    half = row(3, 0.7)
    with log.open("a") as file:
        file.write(row(2, 0.8) + half[:10])
    assert (first := follower.newest()) and first.number == 2
    with log.open("a") as file:
        file.write(half[10:])
    assert (second := follower.newest()) and second.number == 3
    assert follower.newest() is None
