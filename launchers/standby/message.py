"""The one message to a waiting process: command line, environment, stdout and stderr.

It goes over a socket pair that the process has inherited. The process reports first: ``ready``, or
why it is not. The end of the connection, without a message, ends the process: its parent has gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

READY = "ready"
SEND_SECONDS = 5.0
"""Time in which a process must take its message."""
_LENGTH = struct.Struct("!Q")
_OOM_FIRST = "1000"
"""Highest value of ``oom_score_adj`` (proc(5)): the kernel ends this process before any other. A
process may go back to what it had, without privileges (kernel, ``fs/proc/base.c``)."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """The command line, environment and output files that a waiting process takes over."""

    argv: Sequence[str]
    env: Mapping[str, str]
    stdout: int
    """A file descriptor, as is ``stderr``."""
    stderr: int

    def send(self, connection: socket.socket) -> None:
        """Send it to a waiting process.

        Raises:
            OSError: the process has ended, or does not read.
        """
        body = json.dumps([list(self.argv), dict(self.env)]).encode()
        connection.settimeout(SEND_SECONDS)
        socket.send_fds(connection, [_LENGTH.pack(len(body))], [self.stdout, self.stderr])
        connection.sendall(body)

    @classmethod
    def receive(cls, connection: socket.socket) -> Message | None:
        """Wait for it; None at the end of the connection."""
        head, fds, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
        body = b""
        if len(head) == _LENGTH.size and len(fds) == 2:
            (size,) = _LENGTH.unpack(head)
            while len(body) < size and (part := connection.recv(size - len(body))):
                body += part
            if len(body) == size:
                argv, env = json.loads(body)
                return cls(argv=argv, env=env, stdout=fds[0], stderr=fds[1])
        return None


class Waiting:
    """This process while it waits.

    A thread reads the connection, since imports hold the main thread.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Begin to wait; let the kernel end this process first if memory runs out."""
        self._connection = connection
        self._found: queue.SimpleQueue[Message] = queue.SimpleQueue()
        _set_oom_score(_OOM_FIRST)
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        try:
            message = Message.receive(self._connection)
        except Exception:  # it would wait for ever
            message = None
        if message is None:
            os._exit(0)
        self._found.put(message)

    def report(self, text: str) -> None:
        """Report ``READY`` to the parent, or why this process is of no use."""
        self._connection.sendall(text.encode() + b"\n")

    def become(self) -> None:
        """Wait for the message, then take over its command line, environment and output."""
        message = self._found.get()
        self._thread.join()
        self._connection.close()
        _set_oom_score(_oom_score_of(os.getppid()))  # the parent is used, or was never a standby
        for given, own in ((message.stdout, 1), (message.stderr, 2)):
            os.dup2(given, own)
        for each in {message.stdout, message.stderr}:
            os.close(each)
        os.environ.clear()
        os.environ.update(message.env)
        sys.argv[:] = message.argv


def _set_oom_score(text: str) -> None:
    """Write this process's ``oom_score_adj``; a kernel that refuses it keeps what it has."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(text, encoding="ascii")


def _oom_score_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii")
    except OSError:
        return "0"


def outcome(connection: socket.socket, *, block: bool) -> str | None:
    """Return what the process at the other end has reported; None if nothing yet.

    Returns:
        ``READY``, why it is not, or an empty text if it has ended.
    """
    connection.setblocking(block)
    try:
        return connection.recv(4096).decode(errors="replace").strip()
    except BlockingIOError:
        return None
    except OSError:
        return ""
