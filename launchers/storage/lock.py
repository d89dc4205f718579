"""One writer at a time on a file system that several hosts share.

No ``flock``, which many NFS mounts keep on one host only. A lock is a file that only one can
create; its holder touches it (heartbeat). Who finds no heartbeat for ``stale`` seconds, or
knows that the holder is dead, takes over by creating the file ``<lock>.<holder's token>``, again
something that only one can do: the end of this chain holds the lock. Tokens are never used
twice, so that a slow taker can't take over a lock that has meanwhile changed hands.

A lease, not a proof: a holder that slept for ``stale`` seconds may wake beside its successor.
Hence ``check``, to be called before anything is put under its final name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.storage.lock_owner import Holder, is_dead, parse, this_process

STALE = 60.0
"""Seconds without a heartbeat after which a holder counts as dead."""
BEAT = 5.0
NOTICE = 30.0
"""Seconds between two lines about waiting."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Lock:
    """A lock file; use it in a ``with`` statement, which waits until the lock is free."""

    def __init__(
        self,
        path: Path,
        holder: str,
        *,
        stale: float = STALE,
        beat: float = BEAT,
        poll: float = 0.5,
    ) -> None:
        """Name the lock file and who wants it; nothing happens yet.

        Args:
            path: the lock file, in an existing folder.
            holder: who holds it, for people: the pod or the run.
            stale: seconds without a heartbeat after which a holder is dead.
            beat: seconds between two heartbeats, well below ``stale``.
            poll: seconds between two looks at another's lock.
        """
        self.path = path
        self._me = this_process(holder)
        self._own = path
        self._stale, self._beat, self._poll = stale, beat, poll
        self._ended = threading.Event()
        self._beater: threading.Thread | None = None
        self._last_beat = 0.0
        self._file = -1

    def __enter__(self) -> Self:
        """Wait for the lock and take it."""
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
        """Give the lock back, unless it has been taken over."""
        self._ended.set()
        if self._beater is not None:
            self._beater.join()
        os.close(self._file)
        with contextlib.suppress(OSError):
            self._release()

    def check(self) -> None:
        """Make sure that this process still holds the lock.

        Raises:
            LaunchError: IO when another has taken it over.
        """
        late = time.monotonic() - self._last_beat
        chain = self._chain()
        if late < self._stale and chain and chain[-1][1].token == self._me.token:
            return
        raise LaunchError(
            Exit.IO,
            f"{self.path} was lost: no heartbeat for {late:.0f} s, or another took it over",
            "look at the workspace's storage; the next attempt goes on from here",
        )

    def _acquire(self) -> None:
        seen: tuple[str, int] | None = None
        since = time.monotonic()
        noticed = since - NOTICE
        while True:
            chain = self._chain()
            now = time.monotonic()
            if not chain:
                if self._claim(self.path):
                    return
                time.sleep(self._poll)  # a name that no one can create or read: don't spin
                continue
            _, tail, beat = chain[-1]
            if (tail.token, beat) != seen:
                seen, since = (tail.token, beat), now
            if is_dead(tail) or now - since >= self._stale:
                if self._claim(self._successor(tail.token)):
                    logs.warning("lock taken over", path=self.path, holder=tail, idle=now - since)
                    return
            elif now - noticed >= NOTICE:
                logs.info("lock waiting", path=self.path, holder=tail, idle=now - since)
                noticed = now
            time.sleep(self._poll)

    def _successor(self, token: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{token}")

    def _chain(self) -> list[tuple[Path, Holder, int]]:
        """Return the lock and its successors: path, holder, last heartbeat (ns)."""
        chain: list[tuple[Path, Holder, int]] = []
        path = self.path
        while True:
            try:
                # opening makes an NFS client ask the server for fresh attributes
                with path.open(encoding="utf-8") as handle:
                    holder, beat = parse(handle.read()), os.fstat(handle.fileno()).st_mtime_ns
            except FileNotFoundError:
                return chain
            chain.append((path, holder, beat))
            path = self._successor(holder.token)

    def _claim(self, path: Path) -> bool:
        """Create a link of the chain; tell whether this process now holds the lock."""
        if not self._create(path):
            return False
        # A taker that was slow may have created a successor in a chain that is gone.
        chain = self._chain()
        if chain and chain[-1][1].token == self._me.token:
            self._own = path
            return True
        path.unlink(missing_ok=True)
        return False

    def _create(self, path: Path) -> bool:
        """Create a file with its text in one step; False when it exists."""
        part = self.path.with_name(f".{self.path.name}.{self._me.token}")
        part.write_text(self._me.text(), encoding="utf-8")
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
        """Do the same where there are no links; a kill may leave the file empty."""
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
        while not self._ended.wait(self._beat):
            with contextlib.suppress(OSError):  # check() sees beats that did not arrive
                os.utime(self._file)
                self._last_beat = time.monotonic()

    def _release(self) -> None:
        chain = self._chain()
        late = time.monotonic() - self._last_beat
        if not chain or chain[-1][1].token != self._me.token or late > self._stale / 2:
            logs.warning("lock lost", path=self.path, late=late)
            return
        for path, _, _ in chain:  # the first one first: from then on the lock is free
            path.unlink(missing_ok=True)
