"""Runs that fail again and again, as a JobSet restarts them."""

from pathlib import Path

from launchers.exits import Exit
from tests.launchers.pods import Pods


def record(pods: Pods, attempt: int, rank: int = 0) -> tuple[int, str, str]:
    found = pods.record(attempt, rank)
    return found["code"], found["class"], found["id"]


def test_a_run_that_fails_three_times_at_the_same_step_ends_for_good(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1, train="0:kill:11")
    for _ in range(3):
        pods.ended(Exit.PEER)
    pods.ended(Exit.NO_PROGRESS)
    message = pods.message(0)
    assert (message["code"], message["class"], message["id"]) == (93, "unknown", "no-progress")
    assert "SIGSEGV" in message["cause"]
    assert record(pods, 3) == (1, "unknown", "ended-by-signal")
    assert record(pods, 4) == (93, "unknown", "no-progress")
    progress = pods.progress()
    assert (progress["state"], progress["code"]) == ("failed", 93)

    pods.train = ""  # a person has corrected the cause
    pods.ended()


def test_the_record_of_an_attempt_names_the_rank_that_ended_first(tmp_path: Path) -> None:
    pods = Pods(tmp_path, train="1:fail:OSError: [Errno 5] Input/output error,0:hang")
    pods.all()
    assert record(pods, 1, rank=1) == (74, "storage", "workspace-fault")
    assert record(pods, 1, rank=0)[2] == "peer-ended"
