"""Restarts of controllers and of the API server do not affect a run."""

import time

from tests.e2e import standin
from tests.e2e.faults import Faults
from tests.e2e.measured import measured
from tests.e2e.space import Space
from tests.e2e.until import until

AWAY = 30.0
"""Seconds without an API server."""
HALF = {"gpusPerNode": 4, "recipe": {"args": {"pipeline_model_parallel_size": 1}}}
"""Values of a run of half a host's GPUs."""
CONTROLLERS = ("jobset", "kueue", "kube-controller-manager", "kube-scheduler")


def test_every_controller_restarts_in_the_middle_of_a_run(queued: Space, faults: Faults) -> None:
    _, run, before = standin.train(queued, HALF)
    for controller in CONTROLLERS:
        faults.cluster.restart(controller)
    standin.finish(run)
    assert run.restarts == (0, 0)
    assert [pod.uid for pod in run.pods()] == [pod.uid for pod in before]


def test_the_api_server_is_away_for_30_s(queued: Space, faults: Faults) -> None:
    """One run ends during the outage, the other continues training."""
    _, ending, _ = standin.train(queued, HALF, name="ending")
    _, lasting, before = standin.train(queued, HALF, name="lasting")
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
    after = lasting.pods()
    assert [(pod.uid, pod.phase) for pod in after] == [(pod.uid, "Running") for pod in before]
    standin.finish(lasting)
    assert ending.restarts == lasting.restarts == (0, 0)
