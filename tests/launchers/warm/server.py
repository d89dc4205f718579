"""Forks a process that has imported modules for each request of ``client.py``.

A request has an argument vector, a folder, an environment, and the three standard streams as
descriptors; then each byte is a signal for the process, and the end of the connection kills it. The
answer is the process's status, as of ``os.waitpid``.
"""

import contextlib
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Request = dict[str, Any]


def main(path: str, session: int, imports: Sequence[str]) -> None:
    """Serve at a socket until the process of the test session ends; run what is asked for."""
    for name in imports:
        importlib.import_module(name)
    own = set(filter(None, os.environ.get("PYTHONPATH", "").split(":")))
    request = _serve(path, session)
    if request is None:
        return
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    given = os.environ.get("PYTHONPATH", "").split(":")
    sys.path[:] = [*filter(None, given), *(each for each in sys.path[1:] if each not in own)]
    tempfile.tempdir = None
    warnings.resetwarnings()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1))
    _run(request["argv"])


def _serve(path: str, session: int) -> Request | None:
    """Return, in a forked process, what it is to run; None at the end of the session."""
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as events:
        listening.bind(f"{path}.new")
        listening.listen(64)
        Path(f"{path}.new").rename(path)
        events.register(listening, selectors.EVENT_READ)
        events.register(os.pidfd_open(session), selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.fileobj is listening:
                    if request := _forked(listening.accept()[0], events):
                        return request
                elif key.data is None:
                    return None
                elif events.get_map().get(key.fd) == key:
                    _turn(key, events)


def _forked(connection: socket.socket, events: selectors.BaseSelector) -> Request | None:
    """Fork a process for a request; return the request in that process."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    if len(streams) < 3:  # the client has been killed
        connection.close()
        return None
    with connection.makefile("rb") as reader:
        text = reader.read(struct.unpack("I", head)[0])
    pid = os.fork()
    if pid == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        found: Request = json.loads(text)
        return found
    for stream in streams:
        os.close(stream)
    data = (pid, os.pidfd_open(pid), connection)
    events.register(data[1], selectors.EVENT_READ, data)
    events.register(connection, selectors.EVENT_READ, data)
    return None


def _turn(key: selectors.SelectorKey, events: selectors.BaseSelector) -> None:
    pid: int
    process: int
    connection: socket.socket
    pid, process, connection = key.data
    if key.fd == connection.fileno():
        with contextlib.suppress(ConnectionError):
            if numbers := connection.recv(64):
                for number in numbers:
                    os.kill(pid, number)
                return
        events.unregister(connection)
        os.kill(pid, signal.SIGKILL)
        return
    _, status = os.waitpid(pid, 0)
    events.unregister(process)
    os.close(process)
    if connection in events.get_map():
        events.unregister(connection)
        with contextlib.suppress(ConnectionError):
            connection.sendall(struct.pack("i", status))
    connection.close()


def _run(argv: list[str]) -> None:
    """Run what Python's command line would: ``-u`` and ``-c``, ``-m`` or a file."""
    while argv[0] == "-u":
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        argv = argv[1:]
    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c":
        sys.argv = ["-c", *argv[2:]]
        sys.path.insert(0, "")
        exec(compile(argv[1], "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.argv = argv
        sys.path.insert(0, str(Path(argv[0]).resolve().parent))
        runpy.run_path(argv[0], run_name="__main__")
