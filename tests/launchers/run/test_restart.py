"""Restarts in place: real launchers, with a fake torchrun that fails."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from launchers.exits import USER, Exit, FailureClass, LaunchError
from launchers.run.restart import is_allowed
from tests.attribution.corpus import load
from tests.launchers.pods import Pods, end
from tests.launchers.processes import commands, is_running
from tests.launchers.waiting import eventually

IN_PLACE = {
    FailureClass.NETWORK,
    FailureClass.HANG,
    FailureClass.INFRA,
    FailureClass.GPU_MEMORY,
    FailureClass.UNKNOWN,
}
"""Classes of failures that may pass in the same pods."""
GLOO = "RuntimeError: gloo: Connection closed by peer"


class Lasting(Pods):
    """Pods that may restart their training three times."""

    def env(self, rank: int, **change: str) -> dict[str, str]:
        return super().env(rank, **{"DPO_RESTARTS_IN_PLACE": "3", **change})


@pytest.fixture
def pods(tmp_path: Path) -> Lasting:
    return Lasting(tmp_path)


def attempts(pods: Pods) -> list[int]:
    return sorted(int(path.name) for path in (pods.run / "attempts").iterdir())


def record(pods: Pods, attempt: int, rank: int) -> tuple[int, str]:
    found = pods.record(attempt, rank)
    return found["code"], found["id"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_a_new_attempt_in_the_same_pods(pods: Lasting, rank: int) -> None:
    pods.train = f"{rank}.1:kill:9,{1 - rank}.1:hang"
    outputs = pods.ended()
    assert attempts(pods) == [1, 2]
    assert record(pods, 1, rank) == (1, "killed-by-other")
    assert record(pods, 1, 1 - rank) == (1, "ended-for-peer")
    assert not list((pods.run / "attempts" / "2").glob("termination-*"))
    assert all("restart in place attempt=2" in output for output in outputs)
    assert not pods.log(0).exists() and not pods.log(1).exists()
    progress = pods.progress()
    assert (progress["state"], progress["attempt"]) == ("succeeded", 2)
    [restart] = progress["restarts_in_place"]
    assert restart["attempt"] == 2 and "killed by SIGKILL" in restart["why"]
    assert restart["why"].startswith(f"rank {rank} (r-node-0-{rank})")
    assert {"failed", "restart"} <= progress["phases"].keys()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_is_announced_before_the_failed_processes_have_ended(
    pods: Lasting, rank: int
) -> None:
    """The kernel takes seconds to end processes with a GPU's memory: all nodes do it at once.

    Here the failed node's output stays open, and its launcher waits 5 s for the end of it.
    """
    pods.train = f"{rank}.1:report,{1 - rank}.1:hang"
    started = [pods.start(each) for each in (0, 1)]
    attempt = pods.run / "attempts" / "1"
    found = {int(p.parts[-5][-1]): p for p in pods.files("pid")}
    own, peer = (int(found[each].read_text()) for each in (rank, 1 - rank))
    ended: dict[str, float] = {}
    with Path(f"/proc/{own}/fd/1").open("wb"):
        found[rank].with_name("held").touch()
        began = time.monotonic()
        while len(ended) < 2:
            if (attempt / f"termination-{rank}.json").exists():
                ended.setdefault("own", time.monotonic() - began)
            if not is_running(peer):
                ended.setdefault("peer", time.monotonic() - began)
            assert time.monotonic() < began + 60, ended
            time.sleep(0.01)
    print({name: f"{seconds:.1f} s" for name, seconds in ended.items()})
    assert ended["peer"] < ended["own"] - 1.5
    assert [end(pod)[0] for pod in started] == [0, 0]


def test_a_restart_resumes_from_the_newest_checkpoint_and_counts_anew_after_one(
    pods: Lasting,
) -> None:
    """Four failures, each after a higher checkpoint, with at most one restart in a row."""
    numbers = range(1, 5)
    pods.train = ",".join(f"0.{n}:save,1.{n}:late-kill:9" for n in numbers)
    pods.ended(DPO_RESTARTS_IN_PLACE="1")
    assert attempts(pods) == [1, 2, 3, 4, 5]
    for number in numbers:
        resumed = pods.flag("resume_from_checkpoint", 1, attempt=number + 1)
        assert resumed.endswith(f"checkpoint-{3 * number}")
    assert len(pods.progress()["restarts_in_place"]) == 4


def test_after_the_last_restart_in_place_the_pods_end_as_ever(pods: Lasting) -> None:
    pods.train = "1:kill:9,0:hang"
    began = time.monotonic()
    leader, culprit = (pods.start(rank, DPO_RESTARTS_IN_PLACE="1") for rank in (0, 1))
    code, output = end(culprit)
    assert leader.poll() is None  # Kubernetes must see the culprit's code first
    assert (end(leader)[0], code) == (Exit.PEER, Exit.PEER)
    assert time.monotonic() - began < 30
    assert attempts(pods) == [1, 2]
    assert 'why="1 restarts in place without a higher checkpoint"' in output
    assert (pods.message(0)["id"], pods.message(1)["id"]) == ("peer-ended", "killed-by-other")
    assert "killed by SIGKILL" in pods.message(0)["cause"]


def test_the_last_attempt_without_progress_is_left_to_new_pods(pods: Lasting) -> None:
    pods.train = "1:kill:9,0:hang"
    pods.ended(Exit.PEER, Exit.PEER)
    assert attempts(pods) == [1, 2]
    pods.ended(Exit.NO_PROGRESS, Exit.PEER)
    assert record(pods, 3, 1) == (1, "killed-by-other")
    assert record(pods, 4, 0) == (93, "no-progress")


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_user_error_wins_over_the_restart_that_a_cascade_asks_for(
    pods: Lasting, culprit: int
) -> None:
    pods.train = f"{1 - culprit}:fail:{GLOO},{culprit}:late-fail:ValueError: bad layout"
    pods.ended(*((Exit.PEER, Exit.CONFIG) if culprit else (Exit.CONFIG, Exit.PEER)))
    assert attempts(pods) == [1]
    assert "bad layout" in pods.message(1 - culprit)["cause"]
    assert pods.progress()["code"] == Exit.CONFIG


def test_a_gang_in_which_all_ends_look_like_cascades_restarts(pods: Lasting) -> None:
    pods.train = f"0.1:fail:{GLOO},1.1:fail:{GLOO}"
    pods.ended()
    assert attempts(pods) == [1, 2]


def restarting(pods: Lasting) -> list[subprocess.Popen[str]]:
    """Start pods of which rank 1 has failed, while rank 0 gives its own a second to fail, too."""
    pods.train = "1.1:kill:11,0.1:deaf"
    started = [pods.start(rank) for rank in (0, 1)]
    assert eventually((pods.run / "attempts" / "1" / "termination-1.json").exists)
    return started


@pytest.mark.parametrize("stopped", [0, 1])
def test_sigterm_during_a_restart_ends_all_pods_as_a_preemption(
    pods: Lasting, stopped: int
) -> None:
    started = restarting(pods)
    time.sleep(0.5)
    started[stopped].send_signal(signal.SIGTERM)
    assert [end(pod)[0] for pod in started] == [Exit.TERMINATED] * 2
    assert attempts(pods) == [1]


def test_a_pod_lost_during_a_restart_ends_the_others(pods: Lasting) -> None:
    leader, peer = restarting(pods)
    peer.kill()
    assert end(leader)[0] == Exit.PEER
    assert "its connection failed" in pods.message(0)["cause"]
    assert attempts(pods) == [1]


def test_rank_0_lost_during_a_restart_ends_the_others(pods: Lasting) -> None:
    leader, peer = restarting(pods)
    leader.kill()
    assert end(peer)[0] == Exit.PEER
    assert "rank 0 ended" in pods.message(1)["cause"]
    for pid, words in commands():  # of the killed pod: the kubelet's part
        if str(pods.folder) in words:
            os.kill(pid, signal.SIGKILL)


def test_a_rank_that_fails_after_rank_0_has_finished_is_not_restarted(pods: Lasting) -> None:
    pods.train = "1:kill:9"
    assert [code for code, _ in pods.all()][1] == Exit.PEER
    assert attempts(pods) == [1]


def test_of_the_corpus_no_user_error_and_nothing_that_needs_new_pods_is_restarted() -> None:
    allowed = []
    for case in load():
        failure_class, code, is_cascade, _ = case.judge()
        error = LaunchError(code, "", "", id="x", failure_class=failure_class)
        if is_allowed(error) and not is_cascade:
            allowed.append(case)
    assert {case.failure_class for case in allowed} <= IN_PLACE
    assert not [case.name for case in allowed if case.code in USER]
    assert len(allowed) >= 10


@pytest.mark.parametrize("code", Exit)
def test_only_four_exit_codes_allow_a_restart(code: Exit) -> None:
    allowed = is_allowed(LaunchError(code, "", "", id="x", failure_class=FailureClass.UNKNOWN))
    assert allowed == (code in (Exit.PEER, Exit.UNAVAILABLE, Exit.HANG, Exit.INCOMPLETE))
