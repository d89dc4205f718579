"""A training process ends by the SIGTERM of its parent only; its children by that of their own."""

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from launchers.system import process
from scripts.helm import ROOT

INSTALLED = "from launchers.stop import sigterm\nsigterm.install()\n"
WAITS = f"""{INSTALLED}
import threading
print("waits", flush=True)
threading.Event().wait()
"""
HAS_CHILDREN = f"""{INSTALLED}
import multiprocessing, subprocess, time
fork = multiprocessing.get_context("fork")
child = fork.Process(target=time.sleep, args=(60,))
child.start()
child.terminate()
child.join(30)
with fork.Pool(2) as pool:
    pool.map(abs, range(4))
program = subprocess.Popen(["sleep", "60"])
program.terminate()
print(child.exitcode, program.wait(30))
"""


def start(program: str) -> subprocess.Popen[str]:
    with process.blocking_sigterm():
        return unblocked(program)


def unblocked(program: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", program]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_only_the_sigterm_of_its_parent_ends_it() -> None:
    with start(WAITS) as worker:
        assert worker.stdout and worker.stdout.readline() == "waits\n"
        subprocess.run(["kill", "-TERM", str(worker.pid)], check=True)  # from another process
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(1)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == -signal.SIGTERM


@pytest.mark.parametrize(("begun", "ends"), [(start, "-9 -9\n"), (unblocked, "-15 -15\n")])
def test_it_can_still_end_its_children_as_where_sigterm_is_not_blocked(
    begun: Callable[[str], subprocess.Popen[str]], ends: str
) -> None:
    with begun(HAS_CHILDREN) as worker:
        output, _ = worker.communicate(timeout=60)
    assert (worker.returncode, output) == (0, ends)


def test_only_what_is_started_meanwhile_has_it_blocked() -> None:
    with process.blocking_sigterm():
        pass
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
