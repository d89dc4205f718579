"""Two starts of one run at once: the second is refused, and the first trains undisturbed."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.storage.lock_owner import parse_owner
from launchers.system.process import descendants
from tests.launchers import warm
from tests.launchers.pods import PYTHONPATH, Pods, end
from tests.launchers.processes import signal_all
from tests.launchers.waiting import eventually

JOBSET = ("JOB_COMPLETION_INDEX", "DPO_JOB_INDEX", "DPO_COMPLETIONS", "DPO_NODES")


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path, nodes=1, train="0:hang")


def start_on_bare_host(pods: Pods, name: str) -> subprocess.Popen[str]:
    env = {key: value for key, value in pods.env(0).items() if key not in JOBSET}
    words = [str(warm.launcher(PYTHONPATH)), "-m", "launchers", "run"]
    env |= {"DPO_POD_NAME": name}
    out = subprocess.PIPE
    return subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("together", [True, False])
def test_the_second_start_is_refused_with_the_name_of_the_first(pods: Pods, together: bool) -> None:
    starts = [start_on_bare_host(pods, "host-a")]
    if not together:
        pods.files("argv.json", 1)
    starts.append(start_on_bare_host(pods, "host-b"))
    pods.files("argv.json", 1)
    assert eventually(lambda: any(each.poll() is not None for each in starts))
    second, first = sorted(starts, key=lambda each: each.poll() is None)
    code, output = end(second)
    assert code == Exit.CONFIG, output
    leader = "host-a" if first is starts[0] else "host-b"
    assert f"run r is already running: {leader}@" in output
    assert "id=run-twice" in output and "Traceback" not in output
    assert first.poll() is None
    assert pods.progress()["state"] == "running", "the refused start wrote over the first's state"
    first.terminate()
    assert end(first)[0] == Exit.TERMINATED
    assert len(list(pods.run.rglob("argv.json"))) == 1
    assert not list(pods.run.glob("run.lock*"))


def test_a_start_after_a_killed_one_does_not_wait(pods: Pods) -> None:
    first = start_on_bare_host(pods, "host-a")
    pods.files("argv.json", 1)
    launcher = parse_owner((pods.run / "run.lock").read_text()).pid  # ``first`` may stand for it
    below = descendants(launcher)
    first.kill()
    end(first)
    signal_all(below, signal.SIGKILL)  # as the end of a container does
    assert list(pods.run.glob("run.lock"))
    pods.train = ""
    begin = time.monotonic()
    code, output = end(start_on_bare_host(pods, "host-a"))
    assert code == Exit.OK, output
    assert time.monotonic() - begin < 20
