"""The node's container as PID 1: a SIGTERM ends it at any point from its first line on."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, run

import pytest

from launchers.exits import Exit
from launchers.system.process import descendants
from tests.chart.fabrics import PROFILES, selected
from tests.chart.helm import Document, launcher, pod, render

AS_PID_1 = ("unshare", "--user", "--map-root-user", "--pid", "--fork")
SOON = 15.0
"""Seconds from SIGTERM to the end; an unhandled one is dropped, and the launcher would start."""
SLOW = """\
import os, sys, time
if {where}:
    open("slow", "w").close()
    time.sleep(2)
"""
"""A sitecustomize.py, which Python imports before the first line of the program."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    unshare = shutil.which("unshare")
    if unshare is None or run([*AS_PID_1, "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here, or no unshare")
    return tmp_path


def terminated(command: list[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Run a command as PID 1 and send it SIGTERM once the file `slow` exists."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **env}
    words = [*AS_PID_1, *command]
    with Popen(words, cwd=folder, env=environment, stdout=PIPE, stderr=STDOUT, text=True) as parent:
        try:
            limit = time.monotonic() + SOON
            while not (folder / "slow").exists() and time.monotonic() < limit:
                time.sleep(0.01)
            first = min(descendants(parent.pid))
            os.kill(first, signal.SIGTERM)
            output, _ = parent.communicate(timeout=SOON)
        finally:
            for each in descendants(parent.pid):
                os.kill(each, signal.SIGKILL)
            parent.kill()
    return parent.returncode, output


def command_of(documents: list[Document], folder: Path) -> list[str]:
    """Return the container's command; it reads the ConfigMap and the fabric's files in a folder."""
    mounted = folder / "mounted"
    mounted.mkdir()
    for name, archive in launcher(documents).items():
        (mounted / name).write_bytes(archive)
    command: list[str] = pod(documents)["containers"][0]["command"]
    return [word.replace("/etc/megatron-dpo/launchers", str(mounted)) for word in command]


def test_between_the_unpacking_and_the_launcher(folder: Path) -> None:
    """An exec removes handlers: the signal stays pending until the launcher has its own."""
    (folder / "sitecustomize.py").write_text(SLOW.format(where='"-m" in sys.orig_argv'))
    command = command_of(render(), folder)
    code, output = terminated(command, folder, {"PYTHONPATH": str(folder)})
    assert code == Exit.TERMINATED, output
    assert "start" not in output


def test_while_a_fabrics_settings_are_read(folder: Path) -> None:
    [profile, *_] = [name for name in sorted(PROFILES) if "envFile" in PROFILES[name]]
    file = folder / "fabric.sh"
    file.write_text("touch slow; sleep 2\n", encoding="utf-8")
    command = command_of(render(selected(profile)), folder)
    command = [word.replace(f". {PROFILES[profile]['envFile']}", f". {file}") for word in command]
    code, output = terminated(command, folder, {})
    assert code == Exit.TERMINATED, output
    assert "start" not in output
