import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Silent(BaseHTTPRequestHandler):
    def say(self, status: int, body: bytes, **headers: str) -> None:
        """Answer; ``Content_Type`` is the header ``Content-Type``."""
        self.send_response(status)
        for name, text in {**headers, "Content_Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Print nothing."""


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve requests with ``handler`` until the context ends; yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
