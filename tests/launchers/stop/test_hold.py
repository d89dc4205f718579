"""``debug.holdMinutes``: pods stay after a failure or the end, and a stop ends the hold."""

import signal
import time
from pathlib import Path

import pytest

from launchers.exits import Exit
from tests.launchers.pods import Pods, end
from tests.launchers.run.test_signals import SOON, read_until


@pytest.mark.parametrize(("train", "code"), [("", Exit.OK), ("0:fail:boom", Exit.PEER)])
def test_a_pod_stays_with_the_code_of_its_end_until_it_is_stopped(
    tmp_path: Path, train: str, code: Exit
) -> None:
    pods = Pods(tmp_path, nodes=1, train=train)
    pod = pods.start(0, DPO_HOLD_SECONDS="600", DPO_RESTARTS_IN_PLACE="0")
    read_until(pod, f"run held code={int(code)} minutes=10")
    said = pods.message(0) if code else {}
    begin = time.monotonic()
    pod.send_signal(signal.SIGTERM)
    assert end(pod)[0] == code
    assert time.monotonic() - begin < SOON
    if code:
        assert pods.message(0) == said and said["code"] == code


def test_a_hold_ends_by_itself_and_follows_no_stop(tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1, train="0:fail:boom")
    pod = pods.start(0, DPO_HOLD_SECONDS="1", DPO_RESTARTS_IN_PLACE="0")
    assert end(pod)[0] == Exit.PEER
    pods = Pods(tmp_path, nodes=1, train="0:hang")
    pod = pods.start(0, DPO_HOLD_SECONDS="600")
    read_until(pod, "train start")
    pod.send_signal(signal.SIGTERM)
    code, output = end(pod)
    assert code == Exit.TERMINATED and "run held" not in output
