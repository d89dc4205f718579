"""The lease of a run: whether this launcher, or the one that started this process, still leads it.

If rank 0's launcher, which holds ``run.lock``, is suspended for longer than the lease, another one
takes the run over. So the thread that gives heartbeats ends it with all its processes once it finds
another owner, and what writes, seals or deletes files of the run calls ``check`` right before, in
the launchers and in the training processes of all ranks.

A window remains: a process that is suspended between the check and the act acts once after it
resumes: one rename, one deletion, or the shards of one save, until the heartbeat ends it. If that
changes a checkpoint that the successor has sealed, its digests differ, and no resume chooses it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from launchers import logs
from launchers.config.settings import Launch
from launchers.exits import Exit, LaunchError
from launchers.storage import lock
from launchers.system.process import kill_descendants

VARIABLE = "DPO_RUN_LEASE"
"""Environment variable of the training processes: path and token of the lock of their run."""
SECONDS = 30.0
"""The lease: seconds without a heartbeat after which the run's leader counts as dead."""
PREDECESSOR_SECONDS = 30.0
"""Time beyond the grace period that a pod waits for the pod which leads the run: after a restart
its predecessor may still be ending."""
STALE_SECONDS = SECONDS


@dataclass(frozen=True)
class RunLease:
    """The lock of a run, and the token of its owner."""

    path: Path
    token: str

    @classmethod
    def parse(cls, text: str) -> RunLease | None:
        """Return what ``str`` has written; None for an empty text."""
        path, _, token = text.rpartition(":")
        return cls(Path(path), token) if token else None

    def __str__(self) -> str:
        """Return the value of ``VARIABLE``."""
        return f"{self.path}:{self.token}"

    def loss(self, *, again: bool = True) -> LaunchError | None:
        """Return why the run is led by another launcher; None if it is not.

        ``again``: whether a lock that does not name the owner is read again for ``lock.CACHED``.

        Raises:
            LaunchError: IO, that could not be found out for ``SECONDS``, or as ``lookup.within``
                says.
        """
        cached = lock.CACHED if again else 0.0
        held, chain = lock.await_answer(self.path, self.token, SECONDS, cached)
        if held:
            return None
        owner = chain[-1][1] if chain else None
        return LaunchError(
            Exit.PREEMPTED,
            f"another launcher has taken this run over: {owner or 'it has ended'} ({self.path})",
            "this one was suspended for longer than its lease and has ended; let only one cluster "
            "or host run this release name",
            id="run-taken-over",
        )


_held: list[RunLease] = []
_ends: list[Callable[[LaunchError], object]] = []
_ending = threading.Lock()


@contextmanager
def holding(lease: RunLease) -> Iterator[None]:
    """Lead the run inside this context."""
    _held.append(lease)
    try:
        yield
    finally:
        _held.clear()
        _ends.clear()


def current() -> RunLease | None:
    """Return the lease of this launcher, or of the one that started this process, if any."""
    return _held[0] if _held else RunLease.parse(os.environ.get(VARIABLE, ""))


def before_end(act: Callable[[LaunchError], object]) -> None:
    """Let this launcher do something before it ends because it has lost its lease, last first."""
    _ends.append(act)


def end(error: LaunchError) -> None:
    """End this launcher with all its processes, which may write no more. Does not return."""
    _ending.acquire()  # for ever: the first thread ends the process
    kill_descendants()
    for act in reversed(_ends):
        try:
            act(error)
        except Exception as broken:
            logs.warning("end of a lost run", cause=repr(broken))
    os._exit(error.code)


def check() -> None:
    """Verify that the run is still led by this launcher; call it right before writing.

    In the launcher that leads the run the loss ends the process; without a lease nothing is known
    and nothing happens.

    Raises:
        LaunchError: PREEMPTED, another launcher has taken the run over; IO, the lock could not be
            read for ``SECONDS``.
    """
    lease = current()
    if lease is None or (lost := lease.loss()) is None:
        return
    if _held:
        end(lost)
    raise lost


@contextmanager
def alone(launch: Launch) -> Iterator[None]:
    """Hold the run's lock: two launchers of one run would train into the same checkpoints.

    The launcher ends at once with PREEMPTED if another one takes it over, and with IO if it cannot
    be read for longer than the lease.

    Raises:
        LaunchError: CONFIG, naming the launcher that leads this run.
    """
    work = launch.work
    work.home.mkdir(parents=True, exist_ok=True)
    is_pod = launch.place.source == "JobSet"
    patience = launch.grace + PREDECESSOR_SECONDS if is_pod else 0.0
    holder = launch.pod or launch.run

    def lose(error: LaunchError | None) -> None:
        try:  # look once more for the owner's name; heartbeats wait for this thread
            error = error or lease.loss(again=False)
        except LaunchError as unknown:
            error = unknown
        if error is not None:
            end(error)

    held = lock.Lock(work.lock, holder, stale=STALE_SECONDS, patience=patience, on_loss=lose)
    lease = RunLease(work.lock, held.token)
    try:
        held.__enter__()
    except lock.HeldError as other:
        raise LaunchError(
            Exit.CONFIG,
            f"run {launch.run} is already running: {other} leads it",
            "wait for its end or stop it, or set another DPO_RUN (release name)",
            id="run-twice",
        ) from None
    try:
        with holding(lease):
            yield
    finally:
        held.__exit__(None, None, None)
