"""Child processes of the launcher: started in their own session, ended with all descendants.

The wrappers of ms-swift swallow SIGTERM and leave torchrun as an orphan
(``swift/cli/main.py``), and torchrun's workers lead sessions of their own, so the launcher
starts torchrun itself and becomes the parent of the processes that torchrun leaves.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

from launchers import logs
from launchers.system.proc_stat import read_stat

_PR_SET_CHILD_SUBREAPER = 36
"""``prctl`` option of linux/prctl.h: orphaned descendants become children of this process."""
KILL_SECONDS = 5.0
"""Time in which a process is gone after SIGKILL. The kernel may hold one for longer, or for ever,
for a network file system or a GPU."""
OPEN_FILES = 65_536
_KEPT_BYTES = 8192
"""End of a child's output that is kept in memory."""


class Stopped(BaseException):
    """SIGTERM or SIGINT was received. Not an ``Exception``, so that no stage swallows it."""

    def __init__(self, number: int) -> None:
        """Record the signal number."""
        super().__init__(signal.Signals(number).name)
        self.number = number


def raise_on_signals(on_first: Callable[[Stopped], None]) -> None:
    """Raise ``Stopped`` on SIGTERM and SIGINT: the kernel ignores them for PID 1 without a handler.

    A second signal kills all descendants and exits at once.

    ``on_first``: called at the first signal, since a second one leaves no time.
    """

    def end_now(number: int, _: FrameType | None) -> None:
        kill_descendants()
        os._exit(128 + number)

    def stop(number: int, _: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, end_now)
        stopped = Stopped(number)
        on_first(stopped)
        raise stopped

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, as PID 1 of a pod already is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def allow_open_files() -> None:
    """Let training open as many files as loaders of data need, where the hard limit allows it.

    Containers start with a soft limit of 1,024 (systemd's default, which containerd 2 keeps).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def hide_variables(names: Collection[str]) -> None:
    """Overwrite variables where the kernel shows this process's environment to its children.

    ``/proc/<pid>/environ`` is the memory in which ``execve`` put the environment, whatever is
    removed later (proc(5)). ``os.environ`` is a copy and keeps them, for the launcher's own use.
    """
    if sys.platform != "linux":
        return
    for name in names:
        os.unsetenv(name)  # libc's array points there
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(fields[47]), int(fields[48])  # env_start, env_end
    except (OSError, ValueError, IndexError):
        begin = end = 0
    if not begin:  # another kernel, such as gVisor's
        logs.warning(
            "secrets stay readable in /proc/<launcher>/environ", why="its place is unknown"
        )
    place, wanted = begin, {os.fsencode(name) for name in names}
    for entry in ctypes.string_at(begin, end - begin).split(b"\0"):
        if entry.partition(b"=")[0] in wanted:
            ctypes.memset(place, 0, len(entry))
        place += len(entry) + 1


@contextmanager
def blocking_sigterm() -> Iterator[None]:
    """Start processes that no SIGTERM ends, nor their descendants: only SIGKILL does.

    The training processes must live until they have saved, also where the SIGTERM that the launcher
    answers is sent to all processes of the host (``stop/sigterm.py``). A blocked signal stays
    blocked in children; an ignored one would not be in data loader workers, for which torch sets a
    handler (``torch/csrc/DataLoader.cpp``). Elsewhere than on Linux nothing is blocked: there the
    launcher cannot find its descendants to kill them.
    """
    blocked = [signal.SIGTERM] if sys.platform == "linux" else []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(argv: Sequence[str], env: Mapping[str, str], sink: int) -> subprocess.Popen[bytes]:
    """Start a command in a new session."""
    return subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


class Child:
    """A running command; its output goes to stdout and to a file."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        output: Path,
        has_failed: Callable[[bytes], bool] = lambda _: False,
        start: Callable[[Sequence[str], Mapping[str, str], int], subprocess.Popen[bytes]] = start,
    ) -> None:
        """Start the command in a new session.

        Args:
            argv: the command.
            env: its environment.
            output: file to which its output is appended.
            has_failed: whether the end of its output says that it has failed, with exit code 1. It
                then counts as ended, though its process may take seconds to exit.
            start: starts it; by default as a new process.
        """
        self._output = output.open("ab")
        self._has_failed, self._last = has_failed, b""
        source, sink = os.pipe()
        try:
            self._process = start(argv, env, sink)
        finally:
            os.close(sink)
        self._copier = threading.Thread(
            target=_copy, args=(source, self._output, self._keep), daemon=True
        )
        self._copier.start()

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def _keep(self, chunk: bytes) -> None:
        self._last = (self._last + chunk)[-_KEPT_BYTES:]

    def wait(
        self, wake: threading.Event, pause: float = 0.2, until: Callable[[], bool] = lambda: False
    ) -> int | None:
        """Wait for the exit; return the code, or None if ``wake`` is set or ``until`` holds."""
        while True:
            code = self.poll()
            if code is not None:
                return code
            if wake.is_set() or until():
                return None
            wake.wait(pause)

    def ended(self, grace: float = 3.0) -> int | None:
        """Wait for the exit, and end what it left within ``grace`` seconds; return the code."""
        try:
            return self.wait(threading.Event())
        finally:
            self.end(grace)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        code = self._process.poll()
        return 1 if code is None and self._has_failed(self._last) else code

    def end(self, grace: float, spare: Collection[int] = ()) -> None:
        """Terminate the group with SIGTERM; after ``grace`` seconds kill all descendants.

        A command that has failed already gets no grace.
        """
        if self.poll() is None:
            _signal_group(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace)
        kill_descendants(spare=spare)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel holds it
            self._process.wait(KILL_SECONDS)
        self._copier.join(timeout=5)
        with contextlib.suppress(OSError):  # buffered output that a full disk rejects
            self._output.close()


def _copy(source: int, target: IO[bytes], keep: Callable[[bytes], None]) -> None:
    """Copy output to stdout and the file unbuffered (progress bars write no newline) until EOF.

    Closes ``source`` then.

    ``keep`` gets what has been written.
    A target that cannot be written (full disk) is dropped: an unread pipe would block training.
    """
    targets = [sys.stdout.buffer, target]
    while chunk := os.read(source, 1 << 16):
        for each in list(targets):
            try:
                each.write(chunk)
                each.flush()
            except Exception:  # an end of this thread would block training, too
                targets.remove(each)
        keep(chunk)
    os.close(source)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def kill_descendants(timeout: float = KILL_SECONDS, spare: Collection[int] = ()) -> bool:
    """Kill and reap all descendants but ``spare`` and theirs; return whether none is left.

    Does nothing without /proc.
    """
    stop = time.monotonic() + timeout
    while time.monotonic() < stop:
        left = descendants(os.getpid(), spare)
        if not left:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
    return not descendants(os.getpid(), spare)


def descendants(root: int, spare: Collection[int] = ()) -> list[int]:
    """List the descendants of ``root``, zombies included; empty without /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) not in spare and (stat := read_stat(entry.name)):
            children.setdefault(stat.parent, []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        queue += children.get(queue[0], [])
        found += children.get(queue.pop(0), [])
    return found
