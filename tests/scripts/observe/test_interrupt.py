"""Ctrl-C ends a verb at once, also while it waits for a server that has stalled."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.helm import ROOT
from tests.scripts.kubeconfig import write

SECONDS = 5.0
"""Much shorter than the time limit of a request."""


def receive_interrupts() -> None:
    """Undo that a shell lets its commands in the background, such as CI's, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    "words",
    [("status", "dpo"), ("status", "dpo", "--watch"), ("logs", "dpo", "-f"), ("list",)],
    ids=" ".join,
)
def test_an_interrupt_does_not_wait_for_the_requests(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = write(tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}")
        command = [sys.executable, "-m", "scripts.cli", *words]
        pipes: Any = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        pipes |= {"text": True, "preexec_fn": receive_interrupts}
        env = os.environ | {"KUBECONFIG": str(config)}
        with subprocess.Popen(command, cwd=ROOT, env=env, **pipes) as running:
            connection, _ = server.accept()
            assert connection.recv(1)
            began = time.monotonic()
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=60)
            assert time.monotonic() - began < SECONDS
        connection.close()
    assert (running.returncode, out, err) == (130, "", "")
