"""However a local run ends: the pods get their grace period, and no process is left."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from launchers.system.process import descendants
from tests.launchers.processes import is_running
from tests.scripts.local.rendered import job
from tests.scripts.local.running import pod_folder, run, start, wait_for_lines

# Starts a grandchild in a session of its own that ignores SIGTERM, as torchrun's workers may.
STUBBORN = """
import os, signal, subprocess, sys, time
code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
if {ignore}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("2026-01-01T00:00:00Z INFO ready", flush=True)
time.sleep(60)
"""


def stubborn(
    folder: Path, *, ignore: bool, grace: int = 5
) -> tuple[subprocess.Popen[str], list[int]]:
    """A local run of two pods that are ready, and all processes below it."""
    process = start(folder, STUBBORN.format(ignore=ignore), [job("node", 2, grace=grace)])
    wait_for_lines(process, "ready", 2)
    return process, descendants(process.pid)


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_stopping_leaves_no_process(tmp_path: Path, number: signal.Signals, expected: int) -> None:
    process, below = stubborn(tmp_path, ignore=False)
    assert len(below) >= 4
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == expected
    assert not any(map(is_running, below))


def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period(tmp_path: Path) -> None:
    process, below = stubborn(tmp_path, ignore=True, grace=1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert "is killed: still running after the grace period of 1 s" in output
    assert not any(map(is_running, below))


def test_when_one_pod_fails_the_others_get_sigterm_and_time_to_save(tmp_path: Path) -> None:
    script = """
        import os, pathlib, signal, sys, time
        ready = pathlib.Path(__file__).parents[3] / "ready"
        def save(*_):
            time.sleep(0.3)
            print("saved", flush=True)
            sys.exit(143)
        if os.environ["JOB_COMPLETION_INDEX"] == "0":
            signal.signal(signal.SIGTERM, save)
            ready.touch()
            time.sleep(60)
        while not ready.exists():
            time.sleep(0.02)
        sys.exit(64)
    """
    code, _ = run(tmp_path, script)
    assert code == 64
    assert (pod_folder(tmp_path, "run-node-0-0") / "log").read_text() == "saved\n"


def test_a_second_ctrl_c_does_not_wait_for_the_grace_period(tmp_path: Path) -> None:
    process, below = stubborn(tmp_path, ignore=True, grace=50)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert time.monotonic() - began < 20
    assert not any(map(is_running, below))


def test_a_pod_that_ends_leaves_nothing_behind_either(tmp_path: Path) -> None:
    script = """
        import pathlib, subprocess, sys
        child = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(child.pid)
    """
    code, _ = run(tmp_path, script)
    assert code == 0
    pids = [int((pod_folder(tmp_path, f"run-node-0-{i}") / "log").read_text()) for i in (0, 1)]
    assert not any(map(is_running, pids))
