"""Restart or end of a failed run: counting and duration."""

import json
import os
import signal
import time
from functools import partial

from launchers.gang.peer_monitor import SILENCE_LIMIT_SECONDS
from tests.e2e import standin
from tests.e2e.chance import Chance
from tests.e2e.faults import freeze, is_stopped, pid_of, runs
from tests.e2e.measured import measured
from tests.e2e.space import Space
from tests.e2e.until import until

HOLD = """
import ctypes, signal, sys

def hold(*_):
    c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
    while True:
        c.pthread_mutex_lock(mutex)  # the second time for ever, with Python's lock

if "launchers" in sys.orig_argv:
    signal.signal(signal.SIGUSR1, hold)
"""
"""``sitecustomize.py`` of a launcher that freezes on SIGUSR1."""


def test_a_killed_rank_is_started_again_in_the_same_pods(queued: Space, chance: Chance) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    with measured("a rank killed: to all ranks of the next attempt running in the same pods"):
        standin.order(run, "kill 9", f"1-{chance.rank}")
        after = run.training(2)
    assert [pod.uid for pod in after] == [pod.uid for pod in before]
    assert run.restarts == (0, 0)
    standin.finish(run)
    assert run.progress["attempt"] == 2
    [restart] = run.progress["restarts_in_place"]
    assert restart["why"].startswith(f"rank {chance.rank} ")
    assert run.restarts == (0, 0)


def test_a_killed_rank_restarts_the_gang_and_counts(queued: Space, chance: Chance) -> None:
    _, run, before = standin.train(queued, {"restarts": {"inPlace": 0}})
    chance.wait()
    standin.order(run, "kill 9", f"1-{chance.rank}")
    with measured("a rank killed: to all pods of the next attempt running"):
        after = run.running(2, but=[pod.uid for pod in before])
    assert not {pod.uid for pod in before} & {pod.uid for pod in after}
    assert run.restarts == (1, 1)
    run.training(2)
    standin.finish(run)
    assert run.progress["attempt"] == 2


def test_a_deleted_pod_restarts_the_gang_for_free(queued: Space, chance: Chance) -> None:
    _, run, before = standin.train(queued)
    chance.wait()
    with measured("a pod deleted: to all pods of the next attempt running"):
        queued.kubectl.run("delete", "pod", before[chance.rank].name, "--wait=false")
        run.running(2, but=[pod.uid for pod in before])
    assert run.restarts == (1, 0)
    standin.finish(run)
    assert run.restarts == (1, 0)


def test_a_user_error_fails_the_run_at_once_without_a_restart(queued: Space) -> None:
    _, run, _ = standin.train(queued)
    with measured("a user error of rank 1: to the JobSet Failed"):
        standin.order(run, "fail ValueError: no such template", "1-1")
        began = time.monotonic()
        jobset = run.ended("Failed")
    # 39 s where the launcher waits for its grace period; here it would be 300 s.
    assert time.monotonic() - began < 15
    assert jobset["status"].get("restarts", 0) == 0
    # Kubernetes may already have removed the terminated peer's pod.
    *peers, culprit = run.pods()
    assert {pod.rank: pod.code for pod in peers} in ({0: 1}, {})
    assert (culprit.rank, culprit.code) == (1, 78)
    said = json.loads(culprit.said)
    assert (said["code"], said["stage"], said["rank"]) == (78, "train", 1)
    assert "no such template" in said["cause"]
    assert all("rank 1" in json.loads(peer.said)["cause"] for peer in peers)
    assert run.progress["state"] == "failed"


def test_a_stopped_launcher_is_continued_before_its_peers_miss_it(queued: Space) -> None:
    _, run, before = standin.train(queued)
    for rank, pod in enumerate(before):
        with measured(f"the launcher of rank {rank} stopped: to SIGCONT from the liveness probe"):
            pid = freeze(pod.name)
            until("it is stopped", partial(is_stopped, pid), seconds=5, pause=0.01)
            until("it continues", partial(runs, pid), seconds=SILENCE_LIMIT_SECONDS)
    standin.finish(run)
    assert [pod.uid for pod in run.pods()] == [pod.uid for pod in before]
    assert run.restarts == (0, 0)


def test_a_launcher_that_stays_frozen_is_replaced_without_its_grace_period(
    queued: Space, chance: Chance
) -> None:
    """SIGCONT does not help where C code holds Python's lock; no signal handler runs then."""
    files = standin.with_files(queued, {"sitecustomize.py": HOLD})
    _, run, before = standin.train(queued, files)
    chance.wait()
    began = time.monotonic()
    with measured("a launcher that stays frozen: to all pods of the next attempt running"):
        os.kill(pid_of(before[chance.rank].name), signal.SIGUSR1)
        run.running(2, seconds=150, but=[pod.uid for pod in before])
    # noticed within a minute, and not after the shipped grace period of 300 s
    assert time.monotonic() - began < SILENCE_LIMIT_SECONDS + 30
    assert run.restarts == (1, 1)
    standin.finish(run)
