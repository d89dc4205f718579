"""Queueing of a run, and how it is reported to the user."""

import os

import pytest

from tests.e2e import queues, sources, standin
from tests.e2e.api import Object
from tests.e2e.cluster.versions import minor, pinned
from tests.e2e.faults import Faults
from tests.e2e.measured import measured
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.e2e.until import until

ONE_GANG = {"nvidia.com/gpu": "16"}


def waiting(run: Run) -> str:
    condition = run.condition("QuotaReserved", "False")
    assert run.suspended
    assert run.pods() == []
    return str(condition["message"])


DEFAULT_SINCE = "0.19"
"""Version of Kueue since which waitForPodsReady is on without being configured."""


def test_a_run_behind_a_full_quota_starts_when_it_is_free(unqueued: Space) -> None:
    """Kueue has the configuration of its release, which leaves waitForPodsReady out."""
    queues.make(unqueued, ONE_GANG)
    first_release, first = standin.release(unqueued, "first", hold=True)
    second_release, second = standin.release(unqueued, "second")
    first_release.install()
    first.running(2)
    second_release.install()
    message = waiting(second)
    assert "insufficient unused quota" in message
    assert "nvidia.com/gpu" in message
    standin.order(first, "succeed")
    with measured("quota freed by a run's end to the next run Completed"):
        first.ended()
        second.ended()
    assert second.restarts == (0, 0)
    installed = minor(os.environ.get("E2E_KUEUE") or pinned("kueue"))
    if [*map(int, installed.split("."))] >= [*map(int, DEFAULT_SINCE.split("."))]:
        assert "PodsReady" in second.conditions()  # only where it is on
    assert "Evicted" not in second.conditions()


def test_a_run_longer_than_max_exec_time_is_ended(unqueued: Space) -> None:
    queues.make(unqueued)
    over = {"kueue": {"maxExecTimeSeconds": 5}}
    release, run = standin.release(unqueued, "dpo", over, hold=True)
    release.install()
    run.running(2)
    with measured("maxExecTimeSeconds 5: running to no pod left"):
        evicted = run.condition("Evicted", seconds=30)
        until("its pods are gone", lambda: run.pods() == [], seconds=30)
    assert "MaximumExecutionTimeExceeded" in evicted["reason"]
    assert run.suspended
    assert run.workload is not None
    assert run.workload["spec"]["active"] is False
    assert run.restarts[1] == 0


PODS_READY_SECONDS = 8
"""waitForPodsReady.timeout; the download takes twice as long."""


@pytest.fixture
def impatient(unqueued: Space, faults: Faults) -> Space:
    """Kueue evicts what is not ready in 8 s, and the hub needs 16 s for the weights."""
    backoff = {"backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
    patience = {"timeout": f"{PODS_READY_SECONDS}s", "requeuingStrategy": backoff}
    faults.configure_kueue({"waitForPodsReady": patience})
    sources.serve(unqueued, pause=PODS_READY_SECONDS * 2 / 40)
    queues.make(unqueued)
    return unqueued


def slow(placement: str, revision: str) -> Object:
    """Return values of a run whose model comes from the hub; each revision is a separate
    download."""
    hub = sources.hub(f"hf://Qwen/Qwen3-30B-A3B-Instruct-2507@{revision}")
    return {"stages": {"placement": placement}, **hub}


def test_wait_for_pods_ready_evicts_only_what_notes_warn_of(impatient: Space) -> None:
    """Kueue ignores a slow download inside the gang's pods, but not one in stage pods."""
    inline_release, inline = standin.release(impatient, "inline", slow("inline", "main"))
    inline_release.install()
    inline.running(2)
    inline.ended()
    assert inline.progress["stages"]["download"]["seconds"] > PODS_READY_SECONDS
    assert "Evicted" not in inline.conditions()
    jobs_release, jobs = standin.release(impatient, "jobs", slow("jobs", "master"))
    printed = jobs_release.install()
    assert "waitForPodsReady" in printed
    evicted = jobs.condition("Evicted", seconds=30)
    assert evicted["reason"] == "PodsReadyTimeout"
