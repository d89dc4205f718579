from __future__ import annotations

import threading
from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.gang import Bond
from launchers.train import _failure


def logs(folder: Path, *texts: str) -> Path:
    for rank, text in enumerate(texts):
        log = folder / "node-0" / "none_x" / "attempt_0" / str(rank) / "stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(text)
    return folder / "node-0"


def test_the_cause_of_any_local_rank_counts(tmp_path: Path) -> None:
    ranks = logs(tmp_path, "RuntimeError: NCCL error\n", "ValueError: bad layout\n")
    error = _failure(ranks, Bond(), started=False)
    assert (error.code, error.cause) == (Exit.CONFIG, "ValueError: bad layout")


def test_a_caught_exception_does_not_hide_that_a_rank_was_killed(tmp_path: Path) -> None:
    ranks = logs(tmp_path, "KeyError: 'messages'\n", "RuntimeError: NCCL error\n")
    agent = "  exitcode  : -15 (pid: 7)\n  exitcode  : -9 (pid: 8)\n"
    ranks.with_suffix(".log").write_text(agent)
    error = _failure(ranks, Bond(), started=False)
    assert (error.code, error.cause) == (Exit.PEER, "a training process was killed by signal 9")


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
