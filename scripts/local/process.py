"""The process of one pod."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.local.pods import Pod


@dataclass(frozen=True, kw_only=True)
class Start:
    """The command, environment and folders of a pod's process."""

    pod: Pod
    command: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    """The pod's own folder; its output goes to `log` in it."""
    working_dir: Path


class PodProcess:
    """A started pod; its output is copied to its log and, line by line, to a callback."""

    def __init__(self, start: Start, listen: Callable[[str, str], None]) -> None:
        """Start it in a session of its own, so that the terminal's Ctrl-C does not reach it."""
        self.start = start
        self._listen = listen
        self._process = subprocess.Popen(
            start.command,
            cwd=start.working_dir,
            env=start.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return self.start.pod.name

    @property
    def log(self) -> Path:
        """Return the file with its output."""
        return self.start.folder / "log"

    def _copy(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with self.log.open("ab") as log:
            for line in stream:
                log.write(line)
                log.flush()
                self._listen(self.name, line.decode(errors="replace").rstrip())

    def poll(self) -> int | None:
        """Return its exit code as a container's (128 + N after signal N); None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def terminate(self) -> None:
        """Send SIGTERM to the process alone, as the kubelet does to a container's first process."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to its process group; the runner kills descendants outside the group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Wait until all output is copied; call it when no writer is left."""
        self._reader.join(timeout=5)
