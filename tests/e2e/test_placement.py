"""Both places of the stages, with and without a queue, by both Helms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import standin
from tests.e2e.kubectl import Object
from tests.e2e.release import HELM3, HELM4
from tests.e2e.space import Space

NO_QUEUE: Object = {"kueue": {"queue": "", "topology": {"mode": "none", "key": ""}}}


@pytest.mark.parametrize("placement", ["inline", "jobs"])
@pytest.mark.parametrize(
    ("queue", "helm"), [(True, HELM4), (False, HELM3)], ids=["queue-helm4", "no-queue-helm3"]
)
def test_the_stages_run_where_the_values_say(
    queued: Space, placement: str, queue: bool, helm: Path
) -> None:
    over: Object = {"stages": {"placement": placement}} | ({} if queue else NO_QUEUE)
    release, run = standin.release(queued, "dpo", over, helm=helm)
    release.install()
    run.ended()
    assert (run.workload is not None) == queue
    pods = [
        run.pods(f"jobset.sigs.k8s.io/replicatedjob-name={stage}")
        for stage in ("clone", "download", "node")
    ]
    assert [len(found) for found in pods] == ([1, 1, 2] if placement == "jobs" else [0, 0, 2])
    assert all(pod.code == 0 for found in pods for pod in found)
    assert run.states["train"] == "done"
