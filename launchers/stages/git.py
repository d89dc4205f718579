"""Git commands: access to the repository, execution, and translation of errors to exit codes."""

import base64
import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from launchers.exits import Exit, LaunchError
from launchers.storage import disk
from launchers.system import lookup
from launchers.system.remedies import SPACE_REMEDY, STORAGE_REMEDY

COMMAND_TIMEOUT_SECONDS = 3600
SECRET = "set code.existingSecret to a Secret with a token, or an ssh-privatekey, that may read it"

_NETWORK = (
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known"
    r"|Failed to connect|Couldn't connect|[Cc]onnection (?:refused|reset|timed out|closed)"
    r"|Network is unreachable|No route to host|timed out|Operation too slow|early EOF|hung up"
    r"|RPC failed|unexpected disconnect|Empty reply from server|returned error: (?:408|429|5\d\d)"
    r"|kex_exchange_identification"
)
_TRANSPORT = r"unable to access '\w+://(?!.*returned error: [1-4])"
"""Any other failure of git's HTTP client: TLS, a proxy, HTTP/2."""


def _said(numbers: Iterable[int]) -> str:
    """Return a pattern of what git prints for errors of the system, in the locale C."""
    said = "|".join(re.escape(os.strerror(number)) for number in numbers)
    return rf"(?:{said})(?! or )"  # "No such device or address" is of a terminal


_RULES: tuple[tuple[str, str, Exit, str], ...] = (
    ("git-disk-full", rf"{_said(disk.FULL)}|[Qq]uota exceeded", Exit.QUOTA, SPACE_REMEDY),
    (
        "git-disk-fault",  # ssh says the last one of its connection
        rf"{_said(disk.FAULTS)}|(?m:^(?:fatal|error): .*{_said([errno.ENOTCONN])})",
        Exit.IO,
        STORAGE_REMEDY,
    ),
    (
        "git-host-key",
        r"No \S+ host key is known|REMOTE HOST IDENTIFICATION|Host key verification failed",
        Exit.AUTH,
        "compare the output of ssh-keyscan HOST with the fingerprints that the server publishes; "
        "add it as known_hosts to code.existingSecret, or to /etc/ssh/ssh_known_hosts of the image",
    ),
    (
        "git-access",
        r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled"
        r"|Access denied|returned error: 40[13]|Permission denied \(|invalid format"
        r"|Load key|UNPROTECTED",
        Exit.AUTH,
        SECRET,
    ),
    (
        "git-user",
        r"No user exists for uid",
        Exit.CONFIG,
        "ssh needs a user name: use an https URL with a token, or an image that defines the user",
    ),
    (
        "git-certificate",
        r"SSL certificate|certificate verif",
        Exit.CONFIG,
        "set extraEnv.GIT_SSL_CAINFO to the file of your CA certificates",
    ),
    (
        "git-owner",
        r"dubious ownership",
        Exit.CONFIG,
        "make the pod's user the owner of the repository",
    ),
    (
        "git-ssh-missing",
        r"cannot run ssh|ssh: not found|ssh: No such",
        Exit.CONFIG,
        "use an image with ssh, or an https URL",
    ),
    (
        "git-unavailable",
        rf"{_NETWORK}|{_TRANSPORT}",
        Exit.UNAVAILABLE,
        "check the pods' network access to the git server; a restart retries",
    ),
    (
        "git-not-found",
        r"[Rr]epository .*not found|does not exist|not appear to be a git repo|returned error: 404"
        r"|couldn't find remote ref|not our ref|unadvertised object|No such remote ref"
        r"|not found",
        Exit.INPUT_MISSING,
        f"check code.url and code.ref; if it is private, {SECRET}",
    ),
    (
        "git-permission",
        r"Permission denied|Read-only",
        Exit.QUOTA,
        "grant the pod's user write access to the workspace",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Access to one repository: git's environment, and the secrets to redact from its output."""

    env: Mapping[str, str]
    secrets: tuple[str, ...] = field(default=(), repr=False)


def access_to(url: str, secret: Path | None, env: Mapping[str, str], scratch: Path) -> Access:
    """Build git's environment.

    Secrets go neither into argv nor into the url nor into files of the clone. A token is passed in
    ``GIT_CONFIG_*`` variables, bound to the url's host, so that a submodule of another host does
    not get it. An ssh key is copied: ssh refuses a key that its group may read, and Secrets are
    mounted that way.

    Args:
        url: the repository.
        secret: folder of the Secret: ``token`` (optionally ``username``), or
            ``ssh-privatekey`` (optionally ``known_hosts``; otherwise ssh's own files must have the
            server's key: an unknown server could serve other code).
        env: the launcher's environment.
        scratch: a folder that only this user can read.
    """
    config = {"safe.directory": "*", "advice.detachedHead": "false", "core.hooksPath": os.devnull}
    header, hidden = _header(url, secret)
    config |= header
    # traces would print the token
    kept = {
        k: v for k, v in env.items() if not k.startswith(("GIT_TRACE", "GIT_CURL", "GIT_CONFIG"))
    }
    return Access(
        env={
            **kept,
            **{f"GIT_CONFIG_KEY_{i}": key for i, key in enumerate(config)},
            **{f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(config.values())},
            "GIT_CONFIG_COUNT": str(len(config)),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
            "GIT_HTTP_LOW_SPEED_TIME": "60",
            # no ext:: and similar; local paths, also of submodules, only for local clones
            "GIT_ALLOW_PROTOCOL": "file" if url.startswith("file:") else "https:http:ssh:git",
            "GIT_SSH_COMMAND": shlex.join(_ssh(secret, scratch)),
            "LC_ALL": "C",
        },
        secrets=hidden,
    )


def _header(url: str, secret: Path | None) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return git's setting that sends the token, and the secrets in it."""
    token = _read(secret, "token")
    if not token or not url.startswith(("https://", "http://")):
        return {}, ()
    pair = f"{_read(secret, 'username') or 'x-access-token'}:{token}"
    basic = base64.b64encode(pair.encode()).decode()
    parts = urlsplit(url)
    setting = f"http.{parts.scheme}://{parts.netloc}/.extraHeader"
    return {setting: f"Authorization: Basic {basic}"}, (token, basic)


def _read(secret: Path | None, name: str) -> str:
    return "" if secret is None else (lookup.text(secret / name) or "").strip()


def _ssh(secret: Path | None, scratch: Path) -> list[str]:
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=30"]
    key, hosts = _read(secret, "ssh-privatekey"), _read(secret, "known_hosts")
    if key:
        argv += ["-i", _write(scratch / "key", key), "-o", "IdentitiesOnly=yes"]
    if hosts:
        argv += ["-o", f"UserKnownHostsFile={_write(scratch / 'known_hosts', hosts)}"]
    return [*argv, "-o", "StrictHostKeyChecking=yes"]


def _write(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(f"{text}\n", encoding="utf-8")
    return str(path)


class GitError(Exception):
    """A failed git command, with the text of its stderr."""

    @property
    def is_transient(self) -> bool:
        """Return whether the network or the server may have caused it."""
        return self.meaning().code == Exit.UNAVAILABLE

    def meaning(self) -> LaunchError:
        """Translate git's message to an exit code; an unknown one gets ``PEER``, unknown cause."""
        text = str(self)
        for id, pattern, code, remedy in _RULES:
            if re.search(pattern, text):
                return LaunchError(code, f"git: {_relevant_line(text, pattern)}", remedy, id=id)
        return LaunchError(
            Exit.PEER,
            f"git: {_relevant_line(text, 'fatal|error')}",
            "check the log",
            id="git-failed",
        )


def _relevant_line(text: str, pattern: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(pattern, line)), lines[-1] if lines else "?")


def git(folder: Path, access: Access, *words: str, seconds: float = COMMAND_TIMEOUT_SECONDS) -> str:
    """Run one git command in ``folder``, for at most ``seconds``; return its stdout.

    Raises:
        LaunchError: CONFIG when git is not installed.
        GitError: when it fails.
    """
    if shutil.which("git", path=access.env.get("PATH")) is None:
        raise LaunchError(
            Exit.CONFIG,
            "git is not installed in this image",
            "use an image with git, or leave code.url empty",
            id="git-missing",
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
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} timed out after {seconds:.0f} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # git's helpers are in its session
            process.wait()
    if process.returncode:
        raise GitError(
            _redact(
                err or out or f"git {words[0]} failed with exit code {process.returncode}",
                access.secrets,
            )
        )
    return out


def _redact(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
