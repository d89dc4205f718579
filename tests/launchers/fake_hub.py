"""A small hub on 127.0.0.1 that speaks as Hugging Face and as ModelScope, with faults on request.

Only what the real clients ask for: the list of files, and files with ranges.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import unquote

from tests.launchers.fake_hub_answer import COMMIT, Answer

Fault = Literal["500", "429", "401", "403", "cut", "wrong", "slow"]


@dataclass
class FakeHub:
    """Content and faults of the hub."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by repository (``models/org/name`` or ``datasets/org/name``)."""
    large: int = 100
    """Size from which a file is large: listed with its SHA-256, not as git's blob."""
    revisions: tuple[str, ...] = ("main", "master", COMMIT)
    token: str = ""
    gated: bool = False
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """Behaviour of the next downloads of a file; the key ``list`` is the list of files."""
    pause: float = 0.02
    """Seconds between the pieces of a slow download."""
    seen: list[str] = field(default_factory=list)
    """``METHOD path range`` of each request."""
    url: str = ""

    def gets(self, path: str) -> list[str]:
        """Return the ranges of the downloads of a file."""
        found = [s.split(" ") for s in self.seen]
        return [f[2] for f in found if f[0] == "GET" and unquote(f[1]).endswith(path)]


@contextmanager
def serve() -> Iterator[FakeHub]:
    """Run a hub."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            Answer(self, hub).give()

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
