"""`helm upgrade`, by both Helms: nothing changes a run, and what would is refused with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import standin
from tests.e2e.kubectl import Object
from tests.e2e.release import HELM3, HELM4, Refused, Release
from tests.e2e.runs import Run
from tests.e2e.space import Space

HELMS = pytest.mark.parametrize("helm", [HELM4, HELM3], ids=["helm4", "helm3"])


def held(space: Space, helm: Path) -> tuple[Release, Run]:
    """Install a run of low priority and hold it in training."""
    over = {"kueue": {"priorityClass": "low"}}
    release, run = standin.release(space, "dpo", over, hold=True, helm=helm)
    release.install()
    run.running(2)
    return release, run


def state(run: Run) -> Object:
    """Return what an upgrade must leave alone."""
    jobset = run.jobset
    return {
        "uid": jobset["metadata"]["uid"],
        "generation": jobset["metadata"]["generation"],
        "spec": jobset["spec"],
        "pods": [(pod.uid, pod.phase) for pod in run.pods()],
    }


@HELMS
def test_an_unchanged_upgrade_does_nothing(queued: Space, helm: Path) -> None:
    release, run = held(queued, helm)
    before = state(run)
    release.upgrade()
    release.upgrade(None, "--dry-run=server")
    assert state(run) == before
    standin.order(run, "succeed")
    run.ended()
    assert run.restarts == (0, 0)
    before = state(run)
    release.upgrade()
    assert state(run) == before


CHANGES: dict[str, Object] = {
    "recipe: args.lr": {"recipe": {"args": {"lr": "1e-6"}}},
    "pods: image": {"image": {"tag": "2"}},
    "pods: ": {"restarts": {"max": 1}},
}
"""Changes of what JobSet keeps, by what the refusal names."""


@HELMS
def test_what_a_run_cannot_change_is_refused_with_the_way_out(queued: Space, helm: Path) -> None:
    release, run = held(queued, helm)
    before = state(run)
    for named, change in CHANGES.items():
        for words in ((), ("--dry-run=server",)):
            with pytest.raises(Refused) as refused:
                release.upgrade(change, *words)
            text = str(refused.value)
            assert named in text
            assert "another name" in text
            assert f"helm -n {queued.name} uninstall dpo --cascade foreground --wait" in text
    assert state(run) == before


@HELMS
def test_what_jobset_and_kueue_let_change_changes(queued: Space, helm: Path) -> None:
    release, run = held(queued, helm)
    before = state(run)
    release.upgrade({"kueue": {"priorityClass": "high"}})
    jobset = run.jobset
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    assert state(run)["pods"] == before["pods"]
