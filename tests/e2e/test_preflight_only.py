"""`preflight.only` checks the gang on its nodes, and ends without a download or a step."""

import json

from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.space import Space

SIMULATED = ["cards", "health", "idle", "driver", "rdma", "shm", "versions", "collective"]
"""Checks of what this cluster only simulates, and of packages that its image lacks."""


def only(*skipped: str) -> Object:
    """Values that run the preflight alone, once."""
    return {
        "preflight": {"skip": False, "only": True, "skipChecks": list(skipped)},
        "stages": {"train": {"skip": True}},
        "restarts": {"max": 0},
    }


def test_a_gang_that_passes_ends_with_its_reports_and_nothing_else(queued: Space) -> None:
    release, run = standin.release(queued, "check", only(*SIMULATED))
    release.install()
    run.ended()
    assert [pod.code for pod in run.pods()] == [0, 0]
    reports = sorted((run.home / "attempts" / "1").glob("preflight-*.json"))
    assert [path.name for path in reports] == ["preflight-0.json", "preflight-1.json"]
    assert all(json.loads(path.read_text(encoding="utf-8")) for path in reports)
    assert run.progress["state"] == "succeeded" and run.states == {}
    assert not (queued.workspace / "models").exists()
    assert "run verified" in release.test(90)


def test_a_gang_that_fails_ends_with_80_and_says_which_check(queued: Space) -> None:
    wanted = [check for check in SIMULATED if check != "rdma"]  # no pod has such a device
    release, run = standin.release(queued, "check", only(*wanted))
    release.install()
    run.ended("Failed")
    assert 80 in [pod.code for pod in run.pods()]
    assert (run.progress["state"], run.progress["code"]) == ("failed", 80)
    assert "RDMA" in run.progress["why"]
