"""An API server over HTTP with a run in it: lists, changes, logs, exec, and pods that run here.

A pod that is created runs its command as a process of this machine, and has then succeeded or
failed; exec does the same over the WebSocket protocol `v4.channel.k8s.io`.
"""

import base64
import hashlib
import json
import re
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scripts.doctor.api import Api
from scripts.helm import ROOT
from tests.launchers.loopback import Silent, http_server
from tests.scripts.kubeconfig import connected, write
from tests.scripts.observe.planted import RUNNING, Object, pod

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of the WebSocket handshake (RFC 6455, 1.3)."""
PROTOCOL = "v4.channel.k8s.io"
MOUNT = "/etc/megatron-dpo/launchers"
"""Of the ConfigMaps with the launcher."""
ARCHIVES = ROOT / "chart" / "charts" / "launcher-archive"
STALL_SECONDS = 2.0
"""Longer than the time limit of the tests' requests."""


@dataclass(kw_only=True)
class Cluster:
    objects: dict[str, Object] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    """By the pod's name."""
    groups: list[str] = field(default_factory=lambda: ["jobset.x-k8s.io", "kueue.x-k8s.io"])
    forbidden: set[str] = field(default_factory=set)
    """Parts of paths, with the method: `GET /pods`."""
    asked: list[str] = field(default_factory=list)
    changes: list[tuple[str, str, Object]] = field(default_factory=list)
    date: str | None = None
    hooks: dict[str, Callable[[str], None]] = field(default_factory=dict)
    """Called with the address before the log of a path with this end is sent."""
    exec_status: Object | None = None
    """End of each exec; None for that of its process."""
    closes: bool = True
    """True if exec ends with a closing frame."""
    frame_bytes: int = 30000
    working_folder: Path = ROOT
    """Of an exec: the launcher in it is that of the pods."""
    faults: dict[str, list[str]] = field(default_factory=dict)
    """By the end of a path: what happens to the next requests, see `_fail`."""

    def put(self, collection: str, *items: Object) -> None:
        """Add objects to a collection, such as `/api/v1/namespaces/team/pods`."""
        for item in items:
            self.objects[f"{collection}/{item['metadata']['name']}"] = item

    def log(self, rank: int, text: bytes) -> None:
        """Let a pod run that has written a log."""
        made = pod(rank, RUNNING)
        made["metadata"]["uid"] = f"u{rank}"
        self.put("/api/v1/namespaces/team/pods", made)
        self.logs[made["metadata"]["name"]] = text

    def drop_pods(self) -> None:
        for path in [each for each in self.objects if "/pods/dpo-node-" in each]:
            del self.objects[path]

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, bytes]:
        parts, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        self.asked.append(f"{method} {parts}")
        if (failed := self._fail(parts)) is not None:
            return failed
        denied = (each.split() for each in self.forbidden)
        if any(verb == method and part in parts for verb, part in denied):
            return 403, _status(f"{parts} is forbidden: User eve cannot {method.lower()} it")
        if parts == "/apis":
            groups = [{"name": name, "versions": []} for name in self.groups]
            return 200, json.dumps({"groups": groups}).encode()
        if parts.endswith("/log"):
            name = parts.split("/")[-2]
            if name not in self.logs:
                return 404, _status("no log")
            for hook in (hook for at, hook in self.hooks.items() if parts.endswith(at)):
                hook(url)
            return 200, self._tail(name, query)
        if method == "GET":
            return self._read(parts, query)
        content: Object = json.loads(body or b"{}")
        self.changes.append((method, parts, content))
        return self._change(method, parts, content)

    def _fail(self, path: str) -> tuple[int, bytes] | None:
        """Return the status that a request fails with, drop or stall it; None: it is answered."""
        left = next((found for end, found in self.faults.items() if path.endswith(end)), [])
        fault = left.pop(0) if left else ""
        if fault == "stall":
            threading.Event().wait(STALL_SECONDS)  # tests replace time.sleep
        if fault in ("drop", "stall"):
            raise ConnectionAbortedError
        return (int(fault), _status(f"failed with {fault}")) if fault else None

    def _tail(self, name: str, query: dict[str, list[str]]) -> bytes:
        lines = self.logs[name].splitlines(keepends=True)
        first = max(0, len(lines) - int(query["tailLines"][0])) if "tailLines" in query else 0
        return b"".join(lines[first:])

    def _read(self, path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        if path in self.objects:
            return 200, json.dumps(self.objects[path]).encode()
        if path.rsplit("/", 1)[-1] not in COLLECTIONS:
            return 404, _status(f"{path} not found")
        found = [o for at, o in self.objects.items() if _collection(at, path) == path]
        for selector in query.get("labelSelector", []):
            for term in selector.split(","):
                name, _, value = term.partition("=")
                found = [o for o in found if o["metadata"].get("labels", {}).get(name) == value]
        for selector in query.get("fieldSelector", []):
            place, _, value = selector.partition("=")
            first, name = place.split(".")
            found = [o for o in found if o[first][name] == value]
        return 200, json.dumps({"items": found}).encode()

    def _change(self, method: str, path: str, content: Object) -> tuple[int, bytes]:
        if method == "POST":
            path = f"{path}/{content['metadata']['name']}"
            self.objects[path] = content
            if content.get("kind") == "Pod":
                self._run(content)
            return 201, json.dumps(content).encode()
        if path not in self.objects:
            return 404, _status("not found")
        if method == "DELETE":
            return 200, json.dumps(self.objects.pop(path)).encode()
        merge(self.objects[path], content)
        return 200, json.dumps(self.objects[path]).encode()

    def _run(self, made: Object) -> None:
        name, container = made["metadata"]["name"], made["spec"]["containers"][0]
        # Of $(NAME), which Kubernetes also expands, this server knows no value: it stays.
        command = [each.replace("$$", "$") for each in container["command"]]
        with mounted(made["spec"]["volumes"], command) as (words, folder):
            done = process(words, folder)
        self.logs[name] = done.stdout + done.stderr
        made["status"] = {"phase": "Failed" if done.returncode else "Succeeded"}


def process(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    python = {"python3": sys.executable}
    words = [python.get(command[0], command[0]), *command[1:]]
    return subprocess.run(words, capture_output=True, check=False, cwd=folder)


@contextmanager
def mounted(volumes: Sequence[Object], command: Sequence[str]) -> Iterator[tuple[list[str], Path]]:
    """Yield a command with the ConfigMaps of the launcher in a folder, and its working folder."""
    with tempfile.TemporaryDirectory() as made:
        archives = Path(made) / "archives"
        archives.mkdir()
        for each in volumes:
            for source in each.get("projected", {}).get("sources", ()):
                name = source["configMap"]["name"].rpartition("-")[2] + ".tar.bz2"
                (archives / name).symlink_to(ARCHIVES / name)
        yield [each.replace(MOUNT, str(archives)) for each in command], Path(made)


COLLECTIONS = {
    "pods",
    "jobs",
    "jobsets",
    "workloads",
    "events",
    "localqueues",
    "clusterqueues",
    "cohorts",
    "resourceflavors",
    "persistentvolumeclaims",
    "nodes",
}


def _collection(path: str, asked: str) -> str:
    """Return the collection of an object's path, over all namespaces if that is asked for."""
    found = path.rsplit("/", 1)[0]
    return found if "/namespaces/" in asked else re.sub(r"/namespaces/[^/]+", "", found)


def merge(into: Any, patch: Object) -> None:
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict):
            merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


def _status(message: str) -> bytes:
    return json.dumps({"kind": "Status", "message": message}).encode()


def _exec_status(code: int) -> Object:
    if code == 0:
        return {"status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


def handler(cluster: Cluster) -> type[Silent]:
    class Handler(Silent):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Upgrade", "").lower() == "websocket":
                return self._exec()
            try:
                return self.say(*cluster.answer(self.command, self.path, body))
            except ConnectionAbortedError:
                self.close_connection = True  # without an answer

        do_GET = do_POST = do_PATCH = do_DELETE = _any

        def _exec(self) -> None:
            if "GET /exec" in cluster.forbidden:
                self.say(403, _status('pods "x" is forbidden: cannot get pods/exec'))
                return
            key = self.headers["Sec-WebSocket-Key"] + MAGIC
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_response_only(101)
            protocol = {"Sec-WebSocket-Accept": accept, "Sec-WebSocket-Protocol": PROTOCOL}
            for header in {"Upgrade": "websocket", "Connection": "Upgrade", **protocol}.items():
                self.send_header(*header)
            self.end_headers()
            command = parse_qs(urlsplit(self.path).query)["command"]
            done = process(command, cluster.working_folder)
            self._frames(1, done.stdout)
            self._frames(2, done.stderr)
            status = cluster.exec_status or _exec_status(done.returncode)
            self._frames(3, json.dumps(status).encode())
            if cluster.closes:
                self.wfile.write(b"\x88\x00")
            self.close_connection = True

        def _frames(self, channel: int, data: bytes) -> None:
            size = cluster.frame_bytes
            for begin in range(0, len(data), size):
                block = bytes([channel]) + data[begin : begin + size]
                self.wfile.write(b"\x82" + b"\x7e" + struct.pack(">H", len(block)) + block)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return cluster.date or super().date_time_string(timestamp)

    return Handler


@contextmanager
def serving(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with http_server(handler(cluster)) as url:
        yield connected(write(folder, url), monkeypatch)
