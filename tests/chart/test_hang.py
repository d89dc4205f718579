"""Settings of the hang watchdog reach the launcher; the probe judges the launcher's heartbeat."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launchers.exits import Exit
from launchers.gang.peer_monitor import KEEPALIVE_INTERVAL_SECONDS, SILENCE_LIMIT_SECONDS
from launchers.hang.alive import BEAT_SECONDS
from launchers.hang.settings import FLOORS, Hang, from_env
from scripts.helm import ROOT
from tests.chart.helm import Document, env, pod, render, settings
from tests.chart.test_preflight import KEYS


def parsed(values: Document) -> Hang:
    return from_env(settings(render(values)))


def probe(values: Document) -> Any:
    return pod(render(values))["containers"][0].get("livenessProbe")


def test_every_phase_has_a_floor_in_schema_and_launcher() -> None:
    floors = KEYS["restarts"]["properties"]["hang"]["properties"]["floors"]
    assert floors["propertyNames"]["enum"] == list(FLOORS)


def test_what_the_values_say_reaches_the_launcher() -> None:
    assert parsed({}) == Hang(is_watched=True, floors=FLOORS)
    found = parsed({"restarts": {"hang": {"floors": {"step": 120, "save": 60}}}})
    assert found.floors == {**FLOORS, "step": 120, "save": 60}
    # as `helm upgrade --reuse-values` keeps the values of an earlier chart
    assert parsed({"restarts": {"hang": None}}).is_watched


def test_a_disabled_watchdog_leaves_no_probe() -> None:
    off = {"restarts": {"hang": {"enabled": False}}}
    assert not parsed(off).is_watched
    assert probe(off) is None and "DPO_ALIVE_FILE" not in env(render(off))


FROZEN = """
import ctypes, signal, sys, time
from pathlib import Path
from launchers.hang import alive
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
with alive.beating(Path(sys.argv[1])):
    print("beats", flush=True)
    for _ in range(2 if sys.argv[2] == "frozen" else 0):
        c.pthread_mutex_lock(mutex)  # the second time for ever, with Python's lock
    time.sleep(60)
"""
"""Stands for a launcher."""


@contextmanager
def launcher(file: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", FROZEN, str(file), how]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "beats\n"
            yield process
        finally:
            process.kill()


def probed(file: Path, pid: int, age: float = 0.0) -> int:
    """Run the probe for a process other than 1; return its exit code.

    The wall clock is a day ahead: it does not count.
    """
    text = probe({})["exec"]["command"]
    assert text[:2] == ["sh", "-c"]
    script = text[-1].replace("/tmp/dpo-alive", str(file))
    script = re.sub(r"(kill -\w+) 1\b", rf"\1 {pid}", script)
    assert script.count(f" {pid}\n") == 2 and str(file) in script
    if age:
        beat(file, age)
    path = f"{file.parent / 'ahead'}:{os.environ['PATH']}"
    date = file.parent / "ahead" / "date"
    date.parent.mkdir(exist_ok=True)
    date.write_text(f"#!/bin/sh\necho {int(time.time()) + 86_400}\n")
    date.chmod(0o755)
    return subprocess.run(["sh", "-c", script], check=False, env={"PATH": path}).returncode


def beat(file: Path, age: float) -> None:
    """Write a heartbeat that is so many seconds old."""
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    file.write_text(f"{uptime - age:.2f}\n")


def test_the_probe_fails_for_an_old_heartbeat_only(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    with launcher(tmp_path / "other", "runs") as process:
        assert probed(file, process.pid) == 0  # a launcher that has not started yet
        file.touch()
        assert probed(file, process.pid) == 0  # nothing is known
        beat(file, 0)
        assert probed(file, process.pid) == 0
        assert probed(file, process.pid, age=5 * BEAT_SECONDS + 1) != 0
        assert process.poll() is None


def test_the_probe_continues_a_stopped_launcher(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    with launcher(file, "runs") as process:
        process.send_signal(signal.SIGSTOP)
        assert probed(file, process.pid, age=16) != 0
        stop = time.monotonic() + 10
        while probed(file, process.pid) != 0 and time.monotonic() < stop:
            time.sleep(0.1)
        assert probed(file, process.pid) == 0 and process.poll() is None


def test_the_probe_ends_a_launcher_that_does_not_continue_before_its_peers_miss_it(
    tmp_path: Path,
) -> None:
    file, found = tmp_path / "alive", probe({})
    with launcher(file, "frozen") as process:
        for age in (16, 26):
            assert probed(file, process.pid, age=age) != 0
        time.sleep(0.5)
        assert process.poll() is None  # it had the time to continue
        process.send_signal(signal.SIGTERM)  # the kubelet's; its handler never runs
        assert probed(file, process.pid, age=36) != 0
        assert process.wait(5) == Exit.PEER
    last = 35 + found["periodSeconds"]
    assert last <= SILENCE_LIMIT_SECONDS - KEEPALIVE_INTERVAL_SECONDS


def test_a_healthy_launcher_survives_any_step_of_its_clock_and_a_resumed_machine(
    tmp_path: Path,
) -> None:
    """After a pause of the machine the last heartbeat is old until the next one."""
    file = tmp_path / "alive"
    with launcher(file, "runs") as process:
        os.utime(file, (0, 0))
        assert probed(file, process.pid) == 0
        assert probed(file, process.pid, age=3600) != 0
        assert probed(file, process.pid) == 0 and process.poll() is None


def test_the_hangup_is_the_last_allowed_failure_and_the_pod_ends_before_its_peers_give_up() -> None:
    """Before it the launcher has had two probes' time to continue; afterwards it is not probed."""
    found = probe({})
    first, period, count = 5 * BEAT_SECONDS, found["periodSeconds"], found["failureThreshold"]
    assert first + (count - 1) * period == 35
    looks = int(re.findall(r"sleep (\d+)", found["exec"]["command"][-1])[0])
    ends = first + period * count + looks + found["terminationGracePeriodSeconds"]
    assert ends <= SILENCE_LIMIT_SECONDS - KEEPALIVE_INTERVAL_SECONDS
