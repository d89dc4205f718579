"""A hub on 127.0.0.1 with the protocols of Hugging Face and ModelScope, and planned faults.

Serves what the real clients request: the list of files, and files with ranges.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from tests.launchers.loopback import Silent, http_server

Fault = Literal["500", "429", "401", "403", "cut", "wrong", "slow", "stall"]
COMMIT = "c0ffee" * 6 + "c0de"

_HF_LIST = re.compile(r"/api/(?P<kind>models|datasets)/(?P<repo>[^/]+/[^/]+)/revision/(?P<rev>.+)")
_HF_FILE = re.compile(
    r"/(?P<kind>datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)"
)
_MS_LIST = re.compile(
    r"/api/v1/(?P<kind>models|datasets)/(?P<repo>[^/]+/[^/]+)/repo/(?:files|tree)"
)
_MS_FILE = re.compile(r"/api/v1/(?P<kind>models|datasets)/(?P<repo>[^/]+/[^/]+)/repo")


@dataclass
class FakeHub:
    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by repository (``models/org/name`` or ``datasets/org/name``)."""
    large: int = 100
    """Bytes from which a file is listed with its SHA-256 instead of git's blob id."""
    revisions: tuple[str, ...] = ("main", "master", COMMIT)
    token: str = ""
    gated: bool = False
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """Faults of the next downloads by file; the key ``list`` is the list of files."""
    pause: float = 0.02
    """Seconds between the pieces of a slow download."""
    stall: float = 5.0
    """Seconds of silence in a stalled download, after which its connection is closed."""
    seen: list[str] = field(default_factory=list)
    """``METHOD path range`` of each request."""
    url: str = ""

    def gets(self, path: str) -> list[str]:
        found = [s.split(" ") for s in self.seen]
        return [f[2] for f in found if f[0] == "GET" and unquote(f[1]).endswith(path)]


@contextmanager
def serve() -> Iterator[FakeHub]:
    hub = FakeHub()

    class Handler(Silent):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            Answer(self, hub).give()

        do_HEAD = do_GET

    with http_server(Handler) as hub.url:
        yield hub


class Answer:
    def __init__(self, request: BaseHTTPRequestHandler, hub: FakeHub) -> None:
        self.request, self.hub = request, hub
        self.url = urlsplit(request.path)
        self.query = {key: values[0] for key, values in parse_qs(self.url.query).items()}

    def give(self) -> None:
        request, path = self.request, self.url.path
        asked = request.headers.get("Range", "-")
        self.hub.seen.append(f"{request.command} {request.path} {asked}")
        given = request.headers.get("Authorization", "")
        if self.hub.token and given != f"Bearer {self.hub.token}":
            return self.send(401, {"message": "Invalid username or password."})
        if match := _HF_LIST.fullmatch(path):
            return self.hf_list(match)
        if match := _HF_FILE.fullmatch(path):
            kind = "datasets" if match["kind"] else "models"
            return self.file(f"{kind}/{match['repo']}", unquote(match["path"]))
        if match := _MS_LIST.fullmatch(path):
            return self.ms_list(match)
        if match := _MS_FILE.fullmatch(path):
            return self.file(f"{match['kind']}/{match['repo']}", self.query["FilePath"])
        return self.send(404, {})

    def hf_list(self, match: re.Match[str]) -> None:

        files = self.hub.repos.get(f"{match['kind']}/{match['repo']}")
        if self.failed("list"):
            return None
        if files is None:
            return self.send(404, {}, {"X-Error-Code": "RepoNotFound"})
        if unquote(match["rev"]) not in self.hub.revisions:
            return self.send(404, {}, {"X-Error-Code": "RevisionNotFound"})
        siblings = []
        for path, content in files.items():
            entry: dict[str, Any] = {"rfilename": path, "size": len(content)}
            if len(content) >= self.hub.large:
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            entry["blobId"] = blob(content)
            siblings.append(entry)
        name = match["repo"]
        return self.send(200, {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings})

    def ms_list(self, match: re.Match[str]) -> None:

        files = self.hub.repos.get(f"{match['kind']}/{match['repo']}")
        if self.failed("list"):
            return None
        if files is None or self.query.get("Revision") not in self.hub.revisions:
            return self.send(404, {"Code": 10010205001, "Message": "not found", "Success": False})
        entries = []
        for path, content in files.items():
            entry = {"Path": path, "Name": path.rpartition("/")[2], "Type": "blob"}
            digest = hashlib.sha256(content).hexdigest()
            entries.append({**entry, "Size": len(content), "Sha256": digest})
        is_first = int(self.query.get("PageNumber", "1")) == 1
        data = {"Files": entries if is_first else [], "TotalCount": len(files)}
        return self.send(200, {"Code": 200, "Success": True, "Data": data, **data})

    def file(self, repo: str, path: str) -> None:
        content = self.hub.repos.get(repo, {}).get(path)
        if content is None:
            return self.send(404, {}, {"X-Error-Code": "EntryNotFound"})
        if self.hub.gated:
            return self.send(403, {}, {"X-Error-Code": "GatedRepo"})
        large = len(content) >= self.hub.large
        etag = hashlib.sha256(content).hexdigest() if large else blob(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        fault = None
        if self.request.command == "GET":
            if self.failed(path, ("500", "429", "401", "403")):
                return None
            fault = self.next_fault(path)
        if fault == "wrong":
            content = bytes(reversed(content))
        start = 0
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.request.headers.get("Range", "")):
            start = int(match[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self.body(206 if start else 200, content[start:], headers, fault)

    def body(
        self, status: int, content: bytes, headers: dict[str, str], fault: Fault | None
    ) -> None:
        request = self.request
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if request.command == "HEAD":
            return
        if fault in ("cut", "stall"):
            request.wfile.write(content[: len(content) // 2])
            request.wfile.flush()
            if fault == "stall":
                time.sleep(self.hub.stall)
            request.close_connection = True
            return
        step = max(1, len(content) // 40) if fault == "slow" else len(content) or 1
        for begin in range(0, len(content), step):
            try:
                request.wfile.write(content[begin : begin + step])
            except (BrokenPipeError, ConnectionResetError):  # the client was killed
                request.close_connection = True
                return
            time.sleep(self.hub.pause if fault == "slow" else 0)

    def next_fault(self, key: str) -> Fault | None:
        planned = self.hub.faults.get(key)
        return planned.pop(0) if planned else None

    def failed(self, key: str, kinds: tuple[str, ...] = ("500", "429", "401", "403")) -> bool:
        """Send the next planned fault if it is an HTTP error; return whether it was."""
        planned = self.hub.faults.get(key)
        if not planned or planned[0] not in kinds:
            return False
        self.send(int(planned.pop(0)), {})
        return True

    def send(self, status: int, document: object, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(document).encode()
        self.body(status, content, {"Content-Type": "application/json", **(headers or {})}, None)


def blob(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
