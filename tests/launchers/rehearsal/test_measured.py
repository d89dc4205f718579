"""Measurements from the files of two attempts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.config.workspace import Workspace
from launchers.metrics import rows
from launchers.metrics.rows import Row
from launchers.rehearsal import host_samples
from launchers.rehearsal.measured import gather, steady
from launchers.rehearsal.rehearsal import KILL_RECORD, Rehearsal


def row(step: int, attempt: int, time: float, seconds: float = 2.0) -> Row:
    found = Row(step=step, total=4, attempt=attempt, time=time, seconds=seconds)
    other = 1.5 if (step, attempt) == (3, 1) else 0.25
    memory: dict[str, Any] = {"reserved_gib": 100.0 + step, "other_seconds": other}
    return replace(found, tokens=4000, world=2, card="h200", **memory)


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """A rehearsal: saved from 12 to 15 s, killed at 20 s, resumed at 50 s."""
    made = Workspace(root=tmp_path, run="r.rehearsal")
    for number in (1, 2):
        (made.attempts / str(number)).mkdir(parents=True)
    found = [row(1, 1, 10.0, 9.0), row(2, 1, 12.0), row(3, 1, 18.0), row(4, 1, 20.1)]
    found += [row(3, 2, 60.0, 8.0), row(4, 2, 62.0)]
    made.metrics.write_text("".join(rows.line(each) + "\n" for each in found))
    (made.home / KILL_RECORD).write_text(json.dumps({"time": 20.0, "step": 4, "rank": 8}))
    samples = [{"time": t, "used": used, "limit": 100} for t, used in ((9, 50), (13, 30), (17, 10))]
    samples[0]["files"], samples[1]["files"] = 9, 6
    complete = {"time": 15.0, "complete": 2}
    lines = [json.dumps(each) for each in (*samples, complete)]
    (made.attempts / "1" / "host-0.jsonl").write_text("\n".join([*lines, '{"time": 1']))
    (made.attempts / "1" / "host-1.jsonl").write_text(json.dumps(samples[2]))
    later = {**samples[2], "used": 70, "files": 20}
    (made.attempts / "2" / "host-1.jsonl").write_text(json.dumps(later))
    before = {"process": 1.0, "optimizer": 2.0, "checkpoint": 99.0}
    (made.attempts / "1" / "phases-0.json").write_text(json.dumps(before))
    after = {"process": 30.0, "optimizer": 40.0, "checkpoint": 47.0}
    (made.attempts / "2" / "phases-0.json").write_text(json.dumps(after))
    folder = made.checkpoints / "checkpoint-2"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 500)
    return made


def test_save_load_kill_and_resume_are_measured(work: Workspace) -> None:
    found = gather(work, Rehearsal(), None)
    assert (found.killed_rank, found.resumed_from, found.restart_seconds) == (8, 2, 40.0)
    assert (found.save_seconds, found.hold_seconds, found.load_seconds) == (3.0, 1.5, 7.0)
    assert (found.checkpoint_bytes, found.step_seconds) == (500, 2.0)
    assert found.free_bytes is not None and found.free_bytes >= 500  # its own files go
    assert found.tokens_per_second_per_gpu == 1000.0
    assert (found.gpu_gib, found.gpu_limit_gib) == (104.0, 139.72)


def test_host_memory_is_the_most_of_all_attempts_and_of_the_save(work: Workspace) -> None:
    first, second = gather(work, Rehearsal(), None).hosts
    assert (first.rank, first.peak, first.peak_at_save, first.limit) == (0, 50, 30, 100)
    assert first.files == 9
    assert (second.peak, second.peak_at_save, second.files) == (70, None, 20)


def test_without_a_kill_nothing_was_resumed(work: Workspace) -> None:
    (work.home / KILL_RECORD).unlink()
    found = gather(work, Rehearsal(), None)
    assert (found.killed_rank, found.resumed_from, found.load_seconds) == (None, None, None)


def test_a_run_that_began_again_from_the_start_is_seen(work: Workspace) -> None:
    again = [row(2, 1, 12.0), row(1, 2, 60.0)]
    work.metrics.write_text("".join(rows.line(each) + "\n" for each in again))
    assert gather(work, Rehearsal(), None).resumed_from == 0


def test_the_first_step_of_an_attempt_is_no_usual_one() -> None:
    found = [row(1, 1, 1.0), row(2, 1, 2.0), row(2, 2, 3.0), row(3, 2, 4.0)]
    assert [(each.step, each.attempt) for each in steady(found)] == [(2, 1), (3, 2)]


def test_readings_and_complete_checkpoints_are_written_while_a_block_runs(tmp_path: Path) -> None:
    checkpoints, folder = tmp_path / "checkpoints", tmp_path / "attempts" / "1"
    (checkpoints / "checkpoint-1").mkdir(parents=True)
    (checkpoints / "checkpoint-1" / "COMPLETE.json").touch()
    with host_samples.sampling(folder, 0, checkpoints):
        (checkpoints / "checkpoint-2").mkdir()
        (checkpoints / "checkpoint-2" / "COMPLETE.json").touch()
    with host_samples.sampling(folder, 1, checkpoints):
        pass
    leader, follower = host_samples.read(tmp_path / "attempts")
    assert (leader.rank, list(leader.complete)) == (0, [2])
    assert (follower.rank, follower.complete) == (1, {})
    fullest = leader.fullest()
    assert fullest is not None and fullest.used
