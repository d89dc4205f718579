"""A lock file that admits one writer on a file system shared by several hosts.

``flock`` is not used: many NFS mounts keep it local to one host. The lock is a file created
exclusively; its owner touches it (heartbeat). A process that sees no heartbeat for ``stale``
seconds, or knows that the owner is dead, takes over by exclusively creating
``<lock>.<owner's token>``; the last file of this chain holds the lock. Tokens are unique, so a slow
process cannot take over a lock that has changed owners meanwhile.

Heartbeats are times of one server or host, and only their change counts, over the observer's
monotonic time: a step of any clock neither takes a lock nor loses it.

This is a lease: an owner suspended for ``stale`` seconds may resume while its successor works.
Therefore call ``check`` before renaming an output to its final name; a process that is suspended
between the two renames it all the same. See also ``run_lease.py``.

A lock that cannot be read (EIO, ESTALE) is neither held nor lost: it is read again for ``stale``
seconds. Nor is one whose files do not name the owner, which an NFS client's cache may cause: it is
lost if that lasts for ``CACHED`` seconds, or once a successor of the owner is seen.
"""

import contextlib
import errno
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.storage.lock_owner import LockOwner, is_alive, is_dead, parse_owner, this_process
from launchers.system import lookup
from launchers.system.atomic_file import flush
from launchers.system.remedies import STORAGE_REMEDY

STALE = 60.0
"""Seconds without a heartbeat after which an owner counts as dead."""
BEAT = 5.0
CACHED = 60.0
"""Seconds for which an NFS client may hide a file, or show a removed one: its ``acdirmax``."""
NOTICE = 30.0
"""Seconds between log lines while waiting."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class HeldError(Exception):
    """A live owner has held the lock for longer than this process waits."""


Chain = list[tuple[Path, LockOwner, int]]
"""The lock and its successors: path, owner, last heartbeat (ns)."""


def successor_of(path: Path, token: str) -> Path:
    """Return the file that takes a lock over from the owner with this token."""
    return path.with_name(f"{path.name}.{token}")


def read_chain(path: Path) -> Chain:
    """Read a lock once; empty if there is none.

    Raises:
        OSError: it cannot be read, or its folder is gone, as where a mount is away: unknown.
    """
    chain: Chain = []
    name = path
    while True:
        try:
            # opening makes an NFS client fetch current attributes
            with name.open(encoding="utf-8", errors="replace") as handle:
                owner, beat = parse_owner(handle.read()), os.fstat(handle.fileno()).st_mtime_ns
        except FileNotFoundError:
            path.parent.stat()
            return chain
        chain.append((name, owner, beat))
        name = successor_of(path, owner.token)


def await_chain(path: Path, seconds: float) -> Chain:
    """Read a lock, again for so many seconds while that is not possible.

    Raises:
        LaunchError: IO, it could not be read.
    """
    stop = lookup.stop_in(seconds)
    while True:
        try:
            return read_chain(path)
        except OSError as error:
            if lookup.monotonic() >= stop:
                raise unreadable(path, error, seconds) from None
        lookup.sleep(min(1.0, seconds / 10))


def holds(chain: Chain, token: str) -> bool | None:
    """Return whether a token owns the lock; None if unknown: no file names it."""
    tokens = [owner.token for _, owner, _ in chain]
    return tokens[-1] == token if token in tokens else None


def await_answer(path: Path, token: str, seconds: float, cached: float) -> tuple[bool, Chain]:
    """Return whether a token owns a lock, and what was read.

    An unreadable lock is read for ``seconds``; a token without a file is no owner after ``cached``.

    Raises:
        LaunchError: IO, unknown: it could not be read, or ``lookup.within`` ended the repetition.
    """
    begin = lookup.monotonic()
    stop = lookup.stop_in(cached)
    while True:
        now = lookup.monotonic()
        chain = await_chain(path, seconds)
        held = holds(chain, token)
        if held is not None or now - begin >= cached:
            return bool(held), chain
        if now >= stop:
            raise unreadable(path, FileNotFoundError("no file names the owner"), now - begin)
        lookup.sleep(min(1.0, cached / 10))


def unreadable(path: Path, error: OSError, seconds: float) -> LaunchError:
    """Return the error of a lock that could not be read, or touched, for so many seconds."""
    return LaunchError(
        Exit.IO,
        f"the lock {path} could not be used on {socket.gethostname()} for {seconds:.0f} s: {error}",
        STORAGE_REMEDY,
        id="lock-unreadable",
    )


class Lock:
    """A lock file; ``with`` waits until the lock is free and acquires it."""

    def __init__(
        self,
        path: Path,
        holder: str,
        *,
        stale: float = STALE,
        beat: float = BEAT,
        poll: float = 0.5,
        patience: float = math.inf,
        on_loss: Callable[[LaunchError | None], None] = lambda error: None,
    ) -> None:
        """Create the lock without acquiring it.

        Args:
            path: the lock file, in an existing folder.
            holder: name of the owner for messages: the pod or the run.
            stale: seconds without a heartbeat after which an owner counts as dead.
            beat: seconds between two heartbeats, well below ``stale``.
            poll: seconds between two reads of another owner's lock.
            patience: seconds to wait for an owner that is known to be alive: a process of this
                host, or one whose heartbeat was seen.
            on_loss: called by the thread that gives heartbeats once another process has taken the
                lock over, or with the error of a lock that cannot be read or touched for ``stale``
                seconds. If it returns, heartbeats continue.
        """
        self.path = path
        self._me = this_process(holder)
        self._own = path
        self._stale, self._beat, self._poll = stale, beat, poll
        self._patience, self._on_loss = patience, on_loss
        self._ended = threading.Event()
        self._beater: threading.Thread | None = None
        self._last_beat = 0.0
        self._file = -1

    def __enter__(self) -> Self:
        """Wait for the lock and acquire it.

        Raises:
            HeldError: with the owner's name, when it is alive and ``patience`` is over.
        """
        self._acquire()
        self._file = os.open(self._own, os.O_RDWR)
        self._last_beat = time.monotonic()
        self._beater = threading.Thread(target=self._beats, name="lock", daemon=True)
        self._beater.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock, unless another process has taken it over."""
        self._ended.set()
        if self._beater is not None:
            self._beater.join()
        os.close(self._file)
        with contextlib.suppress(OSError, LaunchError), lookup.within(self._beat):
            self._release()

    @property
    def token(self) -> str:
        """Return the token of this process's use of the lock."""
        return self._me.token

    def check(self) -> None:
        """Verify that this process still holds the lock.

        Raises:
            LaunchError: IO when another process has taken it over, or it cannot be read.
        """
        late = time.monotonic() - self._last_beat
        if await_answer(self.path, self.token, self._stale, CACHED)[0] and late < self._stale:
            return
        raise LaunchError(
            Exit.IO,
            f"{self.path} was lost: no heartbeat for {late:.0f} s, or another process took it over",
            "check the storage of the workspace; the next attempt resumes from here",
            id="lock-lost",
        )

    def _acquire(self) -> None:
        seen: tuple[str, int] | None = None
        since = begin = time.monotonic()
        noticed = since - NOTICE
        while True:
            now = time.monotonic()  # before the read: a pause after it makes no owner look silent
            chain = await_chain(self.path, self._stale)
            if not chain:
                if self._claim(self.path):
                    return
                time.sleep(self._poll)  # neither creatable nor readable: do not spin
                continue
            _, tail, beat = chain[-1]
            beats = seen is not None and seen[0] == tail.token and seen[1] != beat
            if (beats or is_alive(tail)) and now - begin >= self._patience:
                raise HeldError(str(tail))
            if (tail.token, beat) != seen:
                seen, since = (tail.token, beat), now
            if is_dead(tail) or now - since >= self._stale:
                if self._claim(successor_of(self.path, tail.token)):
                    logs.warning("lock taken over", path=self.path, holder=tail, idle=now - since)
                    return
            elif now - noticed >= NOTICE:
                logs.info("lock waiting", path=self.path, holder=tail, idle=now - since)
                noticed = now
            time.sleep(self._poll)

    def _claim(self, path: Path) -> bool:
        """Create the next file of the chain; return whether this process now holds the lock."""
        is_made = self._create(path)
        # A slow process may have created a successor in a chain that no longer exists. And a link
        # that NFS sent twice "exists", and is this process's.
        chain = await_chain(self.path, self._stale)
        if chain and chain[-1][1].token == self._me.token:
            self._own = chain[-1][0]
            return True
        if is_made:
            path.unlink(missing_ok=True)
        return False

    def _create(self, path: Path) -> bool:
        """Create the file with its content atomically; return False if it exists."""
        part = self.path.with_name(f".{self.path.name}.{self._me.token}")
        part.write_text(self._me.text(), encoding="utf-8")
        flush(part)  # after a power loss an empty lock file would be respected for ``stale``
        try:
            os.link(part, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._create_exclusively(path)
        finally:
            part.unlink(missing_ok=True)
        return True

    def _create_exclusively(self, path: Path) -> bool:
        """Create the file where hard links are unsupported; a kill may leave it empty."""
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        try:
            os.write(handle, self._me.text().encode())
        finally:
            os.close(handle)
        return True

    def _beats(self) -> None:
        unnamed = math.inf  # since when no file names this owner
        while not self._ended.wait(self._beat):
            now = time.monotonic()
            try:
                held = holds(read_chain(self.path), self.token)
                unnamed = math.inf if held else min(unnamed, now)
                # a pause beyond the lease is no cache: a successor may have come and ended since
                known = min(unnamed + CACHED, self._last_beat + self._stale)
                if held is False or (held is None and time.monotonic() >= known):
                    self._on_loss(None)
                else:
                    self._touch()
            except OSError as error:  # check() detects missed heartbeats
                if (seconds := time.monotonic() - self._last_beat) >= self._stale:
                    self._on_loss(unreadable(self.path, error, seconds))

    def _touch(self) -> None:
        """Give a heartbeat, by the descriptor: another owner's file may have the name by now."""
        try:
            os.utime(self._file)
        except OSError:  # after a server's failover a descriptor can be stale for ever
            with self._own.open("r+", encoding="utf-8", errors="replace") as handle:
                if parse_owner(handle.read()).token != self.token:
                    raise
                os.dup2(handle.fileno(), self._file, inheritable=False)
            os.utime(self._file)
        self._last_beat = time.monotonic()

    def _release(self) -> None:
        chain = read_chain(self.path)
        late = time.monotonic() - self._last_beat
        if not chain or chain[-1][1].token != self._me.token or late > self._stale / 2:
            logs.warning("lock lost", path=self.path, late=late)
            return
        for path, _, _ in chain:  # in order: removing the first one frees the lock
            path.unlink(missing_ok=True)
