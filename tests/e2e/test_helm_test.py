"""`helm test` succeeds for a succeeded run, and otherwise fails with the reason."""

import pytest

from tests.e2e import queues, standin
from tests.e2e.kubectl import Object
from tests.e2e.measured import measured
from tests.e2e.release import Refused
from tests.e2e.space import Space

SOON: Object = {"test": {"deadlineSeconds": 3}}


def test_it_waits_for_the_end_of_a_run(queued: Space) -> None:
    release, run = standin.release(queued, "dpo")
    release.install()
    with measured("helm test at once after the installation of a short run"):
        assert "run verified" in release.test(90)
    run.ended()


def test_a_failed_run_is_not_verified_and_its_cause_is_reported(queued: Space) -> None:
    release, run = standin.release(queued, "dpo", hold=True)
    release.install()
    standin.order(run, "fail ValueError: no such template")
    run.ended("Failed")
    with pytest.raises(Refused) as refused:
        release.test(60)
    assert "no such template" in str(refused.value)


def test_the_success_of_an_earlier_release_of_the_name_does_not_count(queued: Space) -> None:
    release, run = standin.release(queued, "dpo", SOON)
    release.install()
    run.ended()
    release.uninstall()
    queues.make(queued, {"nvidia.com/gpu": "8"})
    release.install()
    with pytest.raises(Refused, match="(?s)not started.*waits in the queue"):
        release.test(60)
    queues.make(queued)
    run.ended()
    assert "run verified" in release.test(60)
    assert run.states["train"] == "up to date"
