"""Interface of a hub's client: the files of a repository, and the meaning of errors."""

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from launchers.exits import Exit, LaunchError
from launchers.storage import disk

_NOT_IN_NAMES = re.compile(r"^[A-Za-z]:|[\x00-\x1f\x7f\\\ud800-\udfff]")
_HTTP_MODULES = ("http", "httpcore", "httpx", "requests", "socket", "ssl", "urllib3")
_DISK_ERROR_TEXTS = {
    "quota exceeded": errno.EDQUOT,
    **{os.strerror(n): n for n in (*disk.FULL, *disk.FAULTS, errno.EACCES, errno.EROFS)},
}
_NUMBER = re.compile(r"os error (\d+)")
"""How Rust writes an errno."""


UNKNOWN = -1


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of a repository, as the hub lists it."""

    path: str
    """Relative to the repository's root."""
    size: int
    """Bytes; ``UNKNOWN`` where a mirror lists none."""
    digest: str
    """Hexadecimal; empty if ``digest_type`` is ``none``."""
    digest_type: Literal["sha256", "git", "none"]
    """SHA-256 of the content, git's blob id, or none if the hub lists no digest."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The files of a repository at one revision."""

    commit: str
    """Commit of the revision; the revision itself if the hub has no commits."""
    files: tuple[HubFile, ...]

    def __post_init__(self) -> None:
        """Refuse names that are not paths of different files below the repository's root.

        A hub, a mirror or a proxy chooses them, and the download writes, replaces and removes files
        by them. The same hub would answer the same after a restart, hence DATA.

        Raises:
            LaunchError: DATA with the first such name.
        """
        names, folders = set[str](), set[str]()
        for file in self.files:
            parts, is_new = file.path.split("/"), file.path not in names
            if _NOT_IN_NAMES.search(file.path) or {"", ".", ".."} & {*parts} or not is_new:
                raise _wrong_name(file.path, "" if is_new else " twice")
            names.add(file.path)
            folders |= {"/".join(parts[:count]) for count in range(1, len(parts))}
        for both in sorted(names & folders):
            raise _wrong_name(both, " as a file and as a folder")


def _wrong_name(name: str, how: str) -> LaunchError:
    return LaunchError(
        Exit.DATA,
        f"the hub lists the file {name[:200]!r}{how}; allowed are different relative paths with /, "
        "without empty parts, ., .., \\, a drive or control characters",
        "correct the names in the repository, or check HF_ENDPOINT, MODELSCOPE_ENDPOINT or proxy",
        id="hub-file-name",
    )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error of a hub's client as a ``LaunchError``."""

    error: LaunchError
    transient: bool
    """Whether a retry may succeed."""


class HubClient(Protocol):
    """One repository of a hub."""

    def list(self) -> Listing:
        """List the repository's files."""

    def fetch(self, file: HubFile, commit: str, folder: Path, *, from_scratch: bool) -> None:
        """Download one file to its path below ``folder``.

        ``from_scratch`` discards the partial file of an earlier attempt.
        """

    def translate(self, error: Exception) -> Failure | None:
        """Classify an error; None if neither the hub, the network nor the disk caused it."""


def permanent(code: Exit, cause: str, remedy: str, *, id: str) -> Failure:
    """Return a failure that no retry resolves."""
    return Failure(error=LaunchError(code, cause, remedy, id=id), transient=False)


def unavailable(cause: str, *, transient: bool, remedy: str, id: str) -> Failure:
    """Return an UNAVAILABLE failure with the first line of ``cause``."""
    error = LaunchError(Exit.UNAVAILABLE, cause.splitlines()[0], remedy, id=id)
    return Failure(error=error, transient=transient)


def disk_failure(error: OSError) -> Failure | None:
    """Return the failure of the workspace's disk; None for other errors."""
    found = disk.meaning(error, Path("the workspace"))
    return None if found is None else Failure(error=found, transient=False)


def disk_failure_from_text(text: str) -> Failure | None:
    """Return the disk failure that a message describes; some clients drop the errno.

    >>> failure = disk_failure_from_text("write failed: No space left on device (os error 28)")
    >>> failure.error.code.name
    'QUOTA'
    """
    named = {part.lower(): number for part, number in _DISK_ERROR_TEXTS.items()}
    said = [number for number in map(int, _NUMBER.findall(text)) if number in named.values()]
    said += [number for part, number in named.items() if part in text.lower()]
    return disk_failure(OSError(said[0], os.strerror(said[0]))) if said else None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error or of one of its causes."""
    for cause in _chain(error):
        status = getattr(getattr(cause, "response", None), "status_code", None)
        status = getattr(cause, "status_code", None) if status is None else status
        if isinstance(status, int):
            return status
    return None


def http_host(error: BaseException) -> str:
    """Return the host whose answer an error or one of its causes is; empty without one."""
    urls = (getattr(getattr(cause, "response", None), "url", None) for cause in _chain(error))
    return next((urlsplit(str(url)).hostname or "" for url in urls if url), "")


def is_page(error: BaseException) -> bool:
    """Return whether the answer is a page for people, as a proxy's is: hubs answer programs."""
    found = (getattr(cause, "response", None) for cause in _chain(error))
    return any("html" in each.headers.get("content-type", "") for each in found if each is not None)


def is_network_error(error: BaseException) -> bool:
    """Return whether a connection failed: refused, reset, timed out, unknown host, no JSON.

    A proxy may answer with a page of its own in place of the hub's JSON.

    >>> reset, full = ConnectionResetError(104, "reset"), OSError(28, "full")
    >>> is_network_error(reset), is_network_error(full)
    (True, False)
    """
    return any(
        isinstance(cause, ConnectionError | TimeoutError | JSONDecodeError)
        or type(cause).__module__.split(".")[0] in _HTTP_MODULES
        for cause in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__
