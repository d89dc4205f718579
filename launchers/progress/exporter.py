"""Serve a run's state to Prometheus, on a port of rank 0; never ends a run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.gang import protocol
from launchers.progress import prometheus
from launchers.system import lookup
from launchers.system.atomic_file import read_object

PATH = "/metrics"
REQUEST_TIMEOUT_SECONDS = 5.0
"""Time that a client has to send its request and to read the answer."""

LOOKUP_SECONDS = 2.0
"""Time in which a request repeats the read of the run's state."""
END_TIMEOUT_SECONDS = 1.0
"""Time that the end of a run waits for a request that is being answered."""


class _Server(HTTPServer):
    """Answers one request after the other: a slow client delays others, and takes no threads."""

    def __init__(self, port: int, progress: Path) -> None:
        super().__init__(("", port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = protocol.server(port, self.request_queue_size)
        self.progress = progress

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away; the default prints a traceback."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_SECONDS

    def do_GET(self) -> None:
        """Answer with the metrics; with none before the run has a state."""
        if self.path.split("?")[0] != PATH:
            self.send_error(404, f"only {PATH} is served")
            return
        with lookup.within(LOOKUP_SECONDS):  # Prometheus asks again
            body = prometheus.text(read_object(self.server.progress)).encode()
        self.send_response(200)
        self.send_header("Content-Type", prometheus.CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no request: there is one every few seconds."""


@contextmanager
def exporting(progress: Path, port: int) -> Iterator[None]:
    """Serve the metrics of a run while the block runs.

    ``progress`` is read at each request; ``port`` 0 serves nothing, a taken one is only logged.
    """
    server = _server(progress, port) if port else None
    if server is None:
        yield
        return
    thread = threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True)
    thread.start()
    logs.info("metrics served", port=port, path=PATH)
    try:
        yield
    finally:
        # The end of a run does not wait for a client that sends its request slowly.
        threading.Thread(target=server.shutdown, daemon=True).start()
        thread.join(END_TIMEOUT_SECONDS)
        server.server_close()


def _server(progress: Path, port: int) -> _Server | None:
    try:
        return _Server(port, progress)
    except OSError as error:
        logs.warning("metrics not served", port=port, cause=error)
        return None
