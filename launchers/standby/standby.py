"""A standby: torchrun and training processes that wait for an attempt, with their imports done.

It is started once the running attempt has trained a step. A restart in place hands it the command
line, the environment and the output of its torchrun. A standby that is not ready is ended, and a
new torchrun is started; each launcher decides that for itself, since both do the same from then on.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from launchers import logs
from launchers.config.rank import Place
from launchers.standby.message import READY, Message, outcome
from launchers.system import process
from launchers.system.step_board import Reading, StepBoard
from launchers.system.threads import repeat

AGENT = "launchers.standby.agent"
POLL_SECONDS = 1.0
END_SECONDS = 2.0
"""Time in which the kernel ends a killed process."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """The program that a standby is started for; it cannot serve another."""

    program: str
    """ms-swift's entry file."""
    nproc: int
    place: Place
    env: Mapping[str, str]
    """The environment of torchrun, without what differs between attempts."""

    @property
    def argv(self) -> list[str]:
        """Return the command line, to which the number of the inherited socket is added."""
        first, world = self.place.rank * self.nproc, self.place.nodes * self.nproc
        numbers = [str(each) for each in (self.nproc, first, world)]
        return [sys.executable, "-m", AGENT, self.program, *numbers]


def is_settled(readings: Sequence[Reading]) -> bool:
    """Return whether all training processes of a node have trained a step.

    >>> from launchers.system.step_board import Phase
    >>> first = Reading(boundary=0, phase=Phase.START, step_seconds=0.0, save_seconds=0.0)
    >>> later = Reading(boundary=4, phase=Phase.STEP, step_seconds=0.5, save_seconds=0.0)
    >>> is_settled([later, first]), is_settled([later, later])
    (False, True)
    """
    return all(each.step_seconds > 0 for each in readings)


class _Process:
    """One standby that has been started."""

    def __init__(self, command: Command) -> None:
        self.command, self.began = command, time.monotonic()
        self.said: str | None = None
        self.connection, theirs = socket.socketpair()
        with theirs, process.blocking_sigterm():
            self.popen = subprocess.Popen(
                [*command.argv, str(theirs.fileno())],
                env=dict(command.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )

    def listen(self) -> None:
        """Note what it has reported, if anything."""
        if self.said is None:
            found = outcome(self.connection, block=False)
            self.said = "it has ended" if found == "" else found

    def end(self) -> None:
        """Kill it with its workers: they hold nothing that could be lost."""
        for pid in [self.popen.pid, *process.descendants(self.popen.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(END_SECONDS)
        self.connection.close()


class Standby:
    """The standby of one launcher; without one where the settings want none."""

    def __init__(self, *, is_wanted: bool) -> None:
        """Begin without a process."""
        self._is_wanted = is_wanted
        self._waiting: _Process | None = None

    @property
    def pids(self) -> frozenset[int]:
        """Return the process that survives the end of an attempt, with its descendants."""
        return frozenset([self._waiting.popen.pid] if self._waiting else [])

    @contextmanager
    def during(self, command: Command, board: StepBoard) -> Iterator[None]:
        """Start one while an attempt trains, once per attempt."""
        if not self._is_wanted:
            yield
            return
        if self._waiting and self._waiting.command != command:
            self._drop("it was started with another environment")
        is_due = True

        def look() -> None:
            nonlocal is_due
            if is_due and not board.is_requested and is_settled(board.read()):
                is_due = False
                self._start(command)
            self._look()

        with repeat(look, POLL_SECONDS, "standby"):
            yield

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], sink: int
    ) -> subprocess.Popen[bytes]:
        """Start torchrun: in the standby if it is ready, otherwise as a new process.

        ``argv``: Python, ``-m``, torchrun's module, its arguments.
        """
        if (waiting := self._waiting) is not None:
            why = self._hand_over(
                waiting, Message(argv=argv[2:], env=env, stdout=sink, stderr=sink)
            )
            if not why:
                self._waiting = None
                waiting.connection.close()
                logs.info("standby used", pid=waiting.popen.pid)
                return waiting.popen
            self._drop(why)
        with process.blocking_sigterm():
            return process.start(argv, env, sink)

    def _hand_over(self, waiting: _Process, message: Message) -> str:
        """Return why the standby can't be used; empty once it is."""
        waiting.listen()
        if waiting.said != READY:
            return waiting.said or "it is not ready"
        if waiting.popen.poll() is not None:
            return "it has ended"
        try:
            message.send(waiting.connection)
        except OSError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """End it: no attempt follows."""
        waiting, self._waiting, self._is_wanted = self._waiting, None, False
        if waiting is not None:
            waiting.end()

    def _start(self, command: Command) -> None:
        try:
            self._waiting = _Process(command)
        except OSError as error:  # no process or file descriptor is left
            logs.warning("no standby", why=error)
        else:
            logs.info("standby start", pid=self._waiting.popen.pid)

    def _look(self) -> None:
        """Log once whether the standby is ready; end one that is of no use."""
        waiting = self._waiting
        if waiting is None or waiting.said == READY:
            return
        waiting.listen()
        if waiting.said == READY:
            logs.info("standby ready", seconds=round(time.monotonic() - waiting.began, 1))
        elif waiting.said is not None:
            self._drop(waiting.said)

    def _drop(self, why: str) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            logs.warning("standby not used", why=why)
            waiting.end()
