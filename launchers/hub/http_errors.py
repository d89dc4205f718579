"""Classify the errors of HTTP clients: status, network failure, disk fault."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

from launchers.exits import LaunchError
from launchers.storage import disk

_CLIENTS = ("http", "httpcore", "httpx", "requests", "socket", "ssl", "urllib3")
_TEXTS = {
    "No space left": errno.ENOSPC,
    "os error 28": errno.ENOSPC,
    "quota exceeded": errno.EDQUOT,
    "os error 122": errno.EDQUOT,
    "Input/output error": errno.EIO,
    "os error 5)": errno.EIO,
    "Permission denied": errno.EACCES,
    "Read-only file system": errno.EROFS,
}


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries, or its cause does."""
    for cause in causes(error):
        status = getattr(getattr(cause, "response", None), "status_code", None)
        status = getattr(cause, "status_code", None) if status is None else status
        if isinstance(status, int):
            return status
    return None


def is_network(error: BaseException) -> bool:
    """Return whether a connection failed: refused, reset, timed out, no such host.

    >>> is_network(ConnectionResetError(104, "reset")), is_network(OSError(28, "full"))
    (True, False)
    """
    return any(
        isinstance(cause, ConnectionError | TimeoutError)
        or type(cause).__module__.split(".")[0] in _CLIENTS
        for cause in causes(error)
    )


def from_text(text: str) -> LaunchError | None:
    """Find a fault of the file system in a message: some clients keep no number.

    >>> from_text("write failed: No space left on device (os error 28)").code.name
    'QUOTA'
    """
    for part, number in _TEXTS.items():
        if part.lower() in text.lower():
            return disk.meaning(OSError(number, part), Path("the workspace"))
    return None
