"""How git reaches a repository: its environment and its secrets."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to reach one repository: variables for git, and what must never be logged."""

    env: Mapping[str, str]
    hidden: tuple[str, ...] = field(default=(), repr=False)


def access(url: str, secret: Path | None, env: Mapping[str, str], scratch: Path) -> Access:
    """Build git's environment.

    Secrets go neither into argv nor into the url nor into files of the clone: a token travels in
    ``GIT_CONFIG_*`` variables, bound to the url's host, so that a submodule elsewhere does not get
    it; an ssh key is copied, since ssh refuses one that its group may read, as Secrets are mounted.

    Args:
        url: what is cloned.
        secret: folder of the Secret: ``token`` (and perhaps ``username``), or
            ``ssh-privatekey`` and perhaps ``known_hosts``.
        env: the launcher's environment.
        scratch: a folder that only this user can read.
    """
    config = {"safe.directory": "*", "advice.detachedHead": "false", "core.hooksPath": os.devnull}
    header, hidden = _header(url, secret)
    config |= header
    # traces would print the header
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
            # no ext:: and the like; local paths, of submodules too, only for local clones
            "GIT_ALLOW_PROTOCOL": "file" if url.startswith("file:") else "https:http:ssh:git",
            "GIT_SSH_COMMAND": shlex.join(_ssh(secret, scratch)),
            "LC_ALL": "C",
        },
        hidden=hidden,
    )


def _header(url: str, secret: Path | None) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return git's setting that sends the token, and what of it must stay hidden."""
    token = _read(secret, "token")
    if not token or not url.startswith(("https://", "http://")):
        return {}, ()
    pair = f"{_read(secret, 'username') or 'x-access-token'}:{token}"
    basic = base64.b64encode(pair.encode()).decode()
    parts = urlsplit(url)
    setting = f"http.{parts.scheme}://{parts.netloc}/.extraHeader"
    return {setting: f"Authorization: Basic {basic}"}, (token, basic)


def _read(secret: Path | None, name: str) -> str:
    file = None if secret is None else secret / name
    return file.read_text(encoding="utf-8").strip() if file is not None and file.is_file() else ""


def _ssh(secret: Path | None, scratch: Path) -> list[str]:
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=30"]
    key, hosts = _read(secret, "ssh-privatekey"), _read(secret, "known_hosts")
    if key:
        argv += ["-i", _write(scratch / "key", key), "-o", "IdentitiesOnly=yes"]
    if hosts:
        argv += ["-o", f"UserKnownHostsFile={_write(scratch / 'known_hosts', hosts)}"]
    return [*argv, "-o", f"StrictHostKeyChecking={'yes' if hosts else 'accept-new'}"]


def _write(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(f"{text}\n", encoding="utf-8")
    return str(path)
