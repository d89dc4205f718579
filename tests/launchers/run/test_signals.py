"""SIGTERM ends every phase of a launcher at once: a pod that dallies holds up a whole gang."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.system.process import descendants
from tests.launchers.pods import Pods, end
from tests.launchers.processes import commands

SILENT = Path(__file__).with_name("silent_dns.py")
SOON = 2.0
"""Seconds; two cores that do other things too need some."""


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.fixture
def silent(mute: socket.socket) -> str:
    return f"http://127.0.0.1:{mute.getsockname()[1]}"


def read_until(pod: subprocess.Popen[str], words: str) -> None:
    assert pod.stdout is not None
    seen = ""
    while words not in seen:
        line = pod.stdout.readline()
        assert line, f"ended before {words!r}:\n{seen}"
        seen += line


def ends_at_once(pod: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    begin = time.monotonic()
    pod.send_signal(number)
    code, output = end(pod)
    assert time.monotonic() - begin < SOON, output
    assert code == Exit.TERMINATED, output
    return output


def test_while_the_modules_load(pods: Pods) -> None:
    """As PID 1 a process that handles no SIGTERM yet would not even see it: -15 here."""
    folder = pods.folder / "slow"
    folder.mkdir()
    (folder / "yaml.py").write_text("import time\nprint('loads', flush=True)\ntime.sleep(60)\n")
    path = f"{folder}{os.pathsep}{pods.env(0)['PYTHONPATH']}"
    pod = pods.start(0, PYTHONPATH=path)
    read_until(pod, "loads")
    ends_at_once(pod)


def test_while_a_rank_looks_for_rank_0(pods: Pods) -> None:
    pod = pods.start(1, DPO_MASTER_ADDR="nobody.invalid")
    read_until(pod, "run start")
    time.sleep(0.5)
    ends_at_once(pod)
    assert pods.message(1)["cause"] == "stopped by SIGTERM"


def test_while_the_name_server_is_silent(pods: Pods, tmp_path: Path) -> None:
    """The look-up blocks in C for 5 s and more, where no handler runs."""
    place = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
    tools = shutil.which("unshare") and shutil.which("ip")
    if not tools or subprocess.run([*place, "true"], check=False).returncode:
        pytest.skip("no user namespaces here, or no unshare or ip")
    launcher = [sys.executable, "-m", "launchers", "run"]
    words = [*place, sys.executable, str(SILENT), str(tmp_path), *launcher]
    env = pods.env(1, DPO_MASTER_ADDR="rank-0.example.com")
    pod = subprocess.Popen(words, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    read_until(pod, "run start")
    time.sleep(1)
    [own] = descendants(pod.pid)
    begin = time.monotonic()
    os.kill(own, signal.SIGTERM)
    assert end(pod)[0] == Exit.TERMINATED
    assert time.monotonic() - begin < SOON


def test_while_rank_0_waits_at_the_barrier(pods: Pods) -> None:
    pod = pods.start(0)
    read_until(pod, "convert skipped")
    time.sleep(0.5)
    assert "run ended code=143 stage=run" in ends_at_once(pod)
    assert (pods.progress()["state"], pods.progress()["code"]) == ("failed", Exit.TERMINATED)


def test_while_a_rank_waits_for_rank_0s_stages(pods: Pods, silent: str) -> None:
    leader = pods.start(0, DPO_CODE_URL=f"{silent}/a", DPO_CODE_REF="main")
    read_until(leader, "clone start")
    pod = pods.start(1, DPO_CODE_URL=f"{silent}/a", DPO_CODE_REF="main")
    read_until(pod, "waiting for rank 0")
    ends_at_once(pod)
    ends_at_once(leader)


@pytest.mark.parametrize("command", ["run", "clone"])
def test_while_git_hangs(pods: Pods, mute: socket.socket, silent: str, command: str) -> None:
    pod = pods.start(0, command, DPO_CODE_URL=f"{silent}/a", DPO_CODE_REF="main")
    with mute.accept()[0]:
        ends_at_once(pod)
    assert not [words for _, words in commands() if silent in words]


@pytest.mark.parametrize("hub, endpoint", [("hf", "HF_ENDPOINT"), ("ms", "MODELSCOPE_ENDPOINT")])
def test_while_a_hub_hangs(
    pods: Pods, mute: socket.socket, silent: str, hub: str, endpoint: str
) -> None:
    pods.write_recipe(model=f"{hub}://org/model@main")
    pod = pods.start(0, "download", **{endpoint: silent}, HOME=str(pods.folder))
    with mute.accept()[0]:
        ends_at_once(pod)


def test_while_another_holds_the_lock(pods: Pods, silent: str) -> None:
    pods.write_recipe(model="hf://org/model@main")
    holder = pods.start(0, "download", HF_ENDPOINT=silent)
    read_until(holder, "download start name=")
    pod = pods.start(0, "download", HF_ENDPOINT=silent, DPO_POD_NAME="other")
    read_until(pod, "lock waiting")
    ends_at_once(pod, signal.SIGINT)
    ends_at_once(holder)
