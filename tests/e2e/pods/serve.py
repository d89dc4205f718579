"""The pod ``sources``: a git server and a hub, for namespaces without external network.

``/git/<path>`` is ``git http-backend`` over /data/git with the password in GIT_TOKEN; every other
path is a hub that serves /data/hub (``models/<org>/<name>/<file>``). Each download of a model's
weights takes 40 times HUB_PAUSE seconds.
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.launchers.fake_hub import Answer, FakeHub
from tests.launchers.git_server import GitServer, answer

DATA = Path("/data")
GIT = "/git/"


def repositories(folder: Path) -> dict[str, dict[str, bytes]]:
    """Return the hub's files by repository."""
    repos: dict[str, dict[str, bytes]] = {}
    for home in folder.glob("*/*/*"):
        files = {str(p.relative_to(home)): p.read_bytes() for p in home.rglob("*") if p.is_file()}
        repos[str(home.relative_to(folder))] = files
    return repos


def main() -> None:
    pause = float(os.environ.get("HUB_PAUSE", "0"))
    hub = FakeHub(repos=repositories(DATA / "hub"), pause=pause)
    if pause:
        hub.faults = {"model.safetensors": ["slow"] * 100}
    git = GitServer(root=DATA / "git", password=os.environ["GIT_TOKEN"])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith(GIT):
                self.path = self.path.removeprefix(GIT.rstrip("/"))
                self.close_connection = True  # git's responses have no Content-Length
                answer(self, git)
            else:
                Answer(self, hub).give()

        do_POST = do_HEAD = do_GET

    ThreadingHTTPServer(("", 8000), Handler).serve_forever()


if __name__ == "__main__":
    main()
