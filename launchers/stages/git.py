"""Running git, and what its errors mean."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.stages.git_access import Access

TIMEOUT = 3600
"""Seconds that one git command may take."""
SECRET = "set code.existingSecret to a Secret with a token, or an ssh-privatekey, that may read it"

_NETWORK = (
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known"
    r"|Failed to connect|Couldn't connect|[Cc]onnection (?:refused|reset|timed out|closed)"
    r"|Network is unreachable|No route to host|timed out|Operation too slow|early EOF|hung up"
    r"|RPC failed|unexpected disconnect|Empty reply from server|returned error: (?:429|5\d\d)"
    r"|kex_exchange_identification"
)
_RULES: tuple[tuple[str, Exit, str], ...] = (
    (r"No space left|[Qq]uota exceeded", Exit.QUOTA, "free space on the workspace, or enlarge it"),
    (r"Input/output error|Stale file handle", Exit.IO, "look at the workspace's storage"),
    (
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        Exit.AUTH,
        "put the server's key into known_hosts of code.existingSecret",
    ),
    (
        r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled"
        r"|Access denied|returned error: 40[13]|Permission denied \(|invalid format"
        r"|Load key|UNPROTECTED",
        Exit.AUTH,
        SECRET,
    ),
    (
        r"No user exists for uid",
        Exit.CONFIG,
        "ssh needs a user name: use a https url with a token, or an image that names the user",
    ),
    (r"SSL certificate|certificate verif", Exit.CONFIG, "set extraEnv.GIT_SSL_CAINFO to your CA"),
    (r"dubious ownership", Exit.CONFIG, "let the repository belong to the pod's user"),
    (r"cannot run ssh|ssh: not found|ssh: No such", Exit.CONFIG, "use an image with ssh, or https"),
    (_NETWORK, Exit.UNAVAILABLE, "check the pods' way to the git server; a restart tries again"),
    (
        r"[Rr]epository .*not found|does not exist|not appear to be a git repo|returned error: 404"
        r"|couldn't find remote ref|not our ref|unadvertised object|No such remote ref"
        r"|not found",
        Exit.INPUT_MISSING,
        f"check code.url and code.ref; if it is private, {SECRET}",
    ),
    (r"Permission denied|Read-only", Exit.QUOTA, "let the pod's user write to the workspace"),
)


class GitError(Exception):
    """A git command failed."""

    def __init__(self, text: str) -> None:
        """Keep what it said on stderr."""
        super().__init__(text)

    @property
    def is_transient(self) -> bool:
        """Tell whether the network may have spoilt it."""
        return self.meaning().code == Exit.UNAVAILABLE

    def meaning(self) -> LaunchError:
        """Translate what git said; unknown errors get the code of an unknown cause.

        >>> GitError("fatal: Authentication failed for 'https://host/x'").meaning().code.name
        'AUTH'
        """
        text = str(self)
        for pattern, code, remedy in _RULES:
            if re.search(pattern, text):
                return LaunchError(code, f"git: {_telling(text, pattern)}", remedy)
        return LaunchError(Exit.PEER, f"git: {_telling(text, 'fatal|error')}", "see the log")


def _telling(text: str, pattern: str) -> str:
    """Choose the line that a person wants to read."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(pattern, line)), lines[-1] if lines else "?")


def git(folder: Path, access: Access, *words: str) -> str:
    """Run one git command in ``folder``; return what it printed.

    Raises:
        LaunchError: CONFIG when git is not installed.
        GitError: when it fails.
    """
    if shutil.which("git", path=access.env.get("PATH")) is None:
        raise LaunchError(
            Exit.CONFIG, "git is not installed here", "use an image with git, or set code.url empty"
        )
    process = subprocess.Popen(
        ["git", *words],
        cwd=folder,
        env=dict(access.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} timed out after {TIMEOUT} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # git's helpers are in its session
            process.wait()
    if process.returncode:
        raise GitError(
            _redact(err or out or f"git {words[0]}: {process.returncode}", access.hidden)
        )
    return out


def _redact(text: str, hidden: Sequence[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, "***")
    return text
