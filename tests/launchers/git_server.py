"""A git server on 127.0.0.1: real ``git http-backend``, a password, and planned faults."""

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.launchers.loopback import Silent, http_server


@dataclass
class GitServer:
    """The repositories below ``root``, over HTTP."""

    root: Path
    password: str = ""
    """Required if set, with any user name."""
    strict: bool = False
    """Serve protocol version 0, which allows no fetch of an arbitrary commit."""
    failures: list[int] = field(default_factory=list)
    """HTTP statuses of the next responses."""
    seen: list[str] = field(default_factory=list)
    """``METHOD path`` of each request."""
    url: str = ""


def repository(path: Path, files: dict[str, str], branch: str = "main") -> str:
    if not (path / ".git").exists():
        path.mkdir(parents=True, exist_ok=True)
        run(path, "init", "--quiet", f"--initial-branch={branch}")
        (path / ".git" / "git-daemon-export-ok").touch()
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    run(path, "add", "--all")
    run(path, "commit", "--quiet", "--message", "change")
    return run(path, "rev-parse", "HEAD")


def run(path: Path, *words: str) -> str:
    """Run git with a fixed identity and without this machine's configuration."""
    names = [f"GIT_{role}_{key}" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")]
    env = {"PATH": os.environ["PATH"], "HOME": str(path), **dict.fromkeys(names, "t@example.org")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "file:http"}
    return subprocess.check_output(
        ["git", *words], cwd=path, env=env, stderr=subprocess.PIPE, text=True
    ).strip()


@contextmanager
def serve(root: Path) -> Iterator[GitServer]:
    state = GitServer(root=root)

    class Handler(Silent):
        def do_GET(self) -> None:
            answer(self, state)

        do_POST = do_GET

    with http_server(Handler) as state.url:
        yield state


SAFE = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
SAFE["GIT_CONFIG_NOSYSTEM"] = "1"


def answer(request: BaseHTTPRequestHandler, state: GitServer) -> None:
    """Answer one request: a planned failure, a 401, or the output of git."""
    body = request.rfile.read(int(request.headers.get("Content-Length", "0")))
    state.seen.append(f"{request.command} {request.path}")
    if state.failures:
        request.send_error(state.failures.pop(0))
        return
    if state.password and not allowed(request.headers.get("Authorization", ""), state.password):
        request.send_response(401)
        request.send_header("WWW-Authenticate", 'Basic realm="git"')
        request.end_headers()
        return
    path, _, query = request.path.partition("?")
    env = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(state.root),
        "GIT_HTTP_EXPORT_ALL": "1",
        **SAFE,
        "REQUEST_METHOD": request.command,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": "" if state.strict else request.headers.get("Git-Protocol", ""),
    }
    done = subprocess.run(
        ["git", "http-backend"], input=body, env=env, capture_output=True, check=False
    )
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
    request.send_response(int(headers.pop("Status", "200").split()[0]))
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)


def allowed(header: str, password: str) -> bool:
    kind, _, value = header.partition(" ")
    return kind == "Basic" and base64.b64decode(value).decode().partition(":")[2] == password
