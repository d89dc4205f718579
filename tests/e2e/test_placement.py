"""Both placements of the stages: the shipped file in a queue by Helm 4, the defaults by Helm 3."""

import pytest

from tests.e2e import standin
from tests.e2e.merge import merge
from tests.e2e.release import HELM3, Release
from tests.e2e.runs import Run
from tests.e2e.space import Space

PLACES = pytest.mark.parametrize("placement", ["inline", "jobs"])


def assert_stages_ran(run: Run, placement: str) -> None:
    pods = [
        run.pods(f"jobset.sigs.k8s.io/replicatedjob-name={stage}")
        for stage in ("clone", "download", "node")
    ]
    assert [len(found) for found in pods] == ([1, 1, 2] if placement == "jobs" else [0, 0, 2])
    assert all(pod.code == 0 for found in pods for pod in found)
    assert run.states["train"] == "done"


@PLACES
def test_the_stages_run_where_the_values_say_in_a_queue(queued: Space, placement: str) -> None:
    release, run = standin.release(queued, "dpo", {"stages": {"placement": placement}})
    release.install()
    run.ended()
    assert run.condition("Finished")["reason"] == "Succeeded"  # soon after the JobSet
    assert_stages_ran(run, placement)


@pytest.mark.level("restricted")
@PLACES
def test_the_default_values_run_in_a_restricted_namespace_without_a_queue(
    unqueued: Space, placement: str
) -> None:
    stages = {"stages": {"placement": placement, "convert": {"skip": True}}}
    values = merge(standin.values(), stages)
    release = Release(name="dpo", space=unqueued, values=values, helm=HELM3)
    release.install()
    run = Run(name="dpo", space=unqueued)
    run.ended()
    assert run.workload is None
    assert_stages_ran(run, placement)
    # Helm 3 deletes the pod before it reads the log.
    assert "Succeeded" in release.test(60)
