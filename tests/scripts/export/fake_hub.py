"""A model hub on loopback: the requests of `huggingface_hub` for a push, over real HTTP."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.launchers.loopback import Silent, http_server

TOKEN = "hf_" + "a" * 34
REPOSITORY = "acme/dpo"
BASE = f"/api/models/{REPOSITORY}"
LARGE = ".safetensors"


@dataclass
class Hub:
    endpoint: str = ""
    files: dict[str, bytes] | None = None
    """Of the repository; None before it is created."""
    stored: dict[str, bytes] = field(default_factory=dict)
    """Large files by SHA-256, also those that no commit names."""
    asked: list[str] = field(default_factory=list)
    refuse: dict[str, int] = field(default_factory=dict)
    """HTTP status by the end of a path."""
    is_private: bool = False

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return the status and the document for a request with the right token."""
        if path == "/api/whoami-v2":
            return 200, {"type": "user", "name": "acme"}
        if path == "/api/repos/create":
            self.is_private = json.loads(body)["visibility"] == "private"
            self.files = {".gitattributes": b""} if self.files is None else self.files
            return 200, {"url": f"{self.endpoint}/{REPOSITORY}"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.startswith("/store/"):
            self.stored[path.removeprefix("/store/")] = body
            return 200, {}
        if self.files is None:
            return 404, {"error": "Repository not found"}
        if path.startswith(f"{BASE}/tree/main"):
            return 200, [_listed(name, content) for name, content in self.files.items()]
        if path == f"{BASE}/preupload/main":
            names = [each["path"] for each in json.loads(body)["files"]]
            modes = {name: "lfs" if name.endswith(LARGE) else "regular" for name in names}
            found = [{"path": n, "uploadMode": m, "shouldIgnore": False} for n, m in modes.items()]
            return 200, {"files": found}
        if path == f"/{REPOSITORY}.git/info/lfs/objects/batch":
            objects = json.loads(body)["objects"]
            return 200, {"transfer": "basic", "objects": [self._offered(each) for each in objects]}
        assert path == f"{BASE}/commit/main", path
        for line in body.splitlines():
            self._apply(json.loads(line))
        url = f"{self.endpoint}/{REPOSITORY}/commit/c0ffee"
        return 200, {"commitUrl": url, "commitOid": "c0ffee"}

    def _offered(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["oid"] in self.stored:
            return wanted
        upload = {"href": f"{self.endpoint}/store/{wanted['oid']}"}
        return {**wanted, "actions": {"upload": upload}}

    def _apply(self, change: dict[str, Any]) -> None:
        assert self.files is not None
        value = change["value"]
        if change["key"] == "file":
            self.files[value["path"]] = base64.b64decode(value["content"])
        elif change["key"] == "lfsFile":
            self.files[value["path"]] = self.stored[value["oid"]]


def _listed(name: str, content: bytes) -> dict[str, Any]:
    blob = hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()
    found = {"type": "file", "path": name, "size": len(content), "oid": blob}
    if name.endswith(LARGE):
        digest = hashlib.sha256(content).hexdigest()
        found["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return found


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()

    class Handler(Silent):
        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            hub.asked.append(f"{self.command} {path}")
            given = self.headers.get("Authorization", "")
            refused = [code for end, code in hub.refuse.items() if path.endswith(end)]
            if not path.startswith("/store/") and given != f"Bearer {TOKEN}":
                status, document = 401, {"error": "Invalid credentials"}
            elif refused:
                status, document = refused[0], {"error": f"no, {given}"}
            else:
                status, document = hub.answer(self.command, path, body)
            headers = {"X_Error_Code": "RepoNotFound"} if status == 404 else {}
            text = json.dumps(document).encode()
            self.say(status, text, Content_Type="application/json", **headers)

        do_GET = do_POST = do_PUT = _reply  # noqa: N815, the handler's names

    with http_server(Handler) as hub.endpoint:
        yield hub
