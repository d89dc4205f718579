"""Restarts of controllers and of the API server do not affect a run."""

import time

from tests.e2e import standin
from tests.e2e.faults import Faults
from tests.e2e.measured import measured
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.e2e.until import until

AWAY = 30.0
"""Seconds without an API server."""
HALF: dict[str, object] = {
    "gpusPerNode": 4,
    "recipe": {"args": {"pipeline_model_parallel_size": 1}},
}
CONTROLLERS = ("jobset", "kueue", "kube-controller-manager", "kube-scheduler")


def held(space: Space, name: str) -> Run:
    """Install a run of half a host's GPUs and hold it in training."""
    release, run = standin.release(space, name, HALF, hold=True)
    release.install()
    run.training()
    return run


def test_every_controller_restarts_in_the_middle_of_a_run(queued: Space, faults: Faults) -> None:
    run = held(queued, "dpo")
    before = [pod.uid for pod in run.pods()]
    for controller in CONTROLLERS:
        faults.cluster.restart(controller)
    standin.order(run, "succeed")
    run.ended()
    assert run.restarts == (0, 0)
    assert [pod.uid for pod in run.pods()] == before


def test_the_api_server_is_away_for_30_s(queued: Space, faults: Faults) -> None:
    """One run ends during the outage, the other continues training."""
    ending, lasting = held(queued, "ending"), held(queued, "lasting")
    before = [pod.uid for pod in lasting.pods()]
    faults.stop_api()
    back = time.monotonic() + AWAY
    standin.order(ending, "succeed")
    until(
        "the run ends without an API server",
        lambda: ending.progress["state"] == "succeeded",
        seconds=AWAY,
    )
    time.sleep(max(0.0, back - time.monotonic()))  # the outage itself, not a wait for a condition
    faults.start_api()
    with measured("API server back after 30 s: to the run that had ended Completed"):
        ending.ended()
    assert [pod.uid for pod in lasting.pods()] == before
    assert [pod.phase for pod in lasting.pods()] == ["Running"] * 2
    standin.order(lasting, "succeed")
    lasting.ended()
    assert ending.restarts == lasting.restarts == (0, 0)
