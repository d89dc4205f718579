"""Read from the API server without kubectl: each start of it takes 60 ms of a processor."""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
from base64 import b64decode
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

Object = dict[str, Any]
DISCOVERY = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"


class Refused(Exception):
    """Error of kubectl or the API server, with its message."""


@dataclass(frozen=True, kw_only=True)
class Api:
    address: str
    """Host and port."""
    tls: ssl.SSLContext
    headers: dict[str, str]
    _paths: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names of a kind to the paths of its objects: up to their namespace, and after it."""
    _held: threading.local = field(default_factory=threading.local)

    def path(self, kind: str, namespace: str) -> str:
        """Return the path of the objects of a kind, by any of the names that kubectl takes."""
        if kind not in self._paths:
            for root in ("/apis", "/api"):  # core objects take precedence
                self._discover(root)
        if kind not in self._paths:
            raise Refused(f"the server doesn't have a resource type {kind!r}")
        before, after = self._paths[kind]
        return f"{before}{quote(namespace)}{after}" if after else before

    def read(self, path: str, accept: str = "application/json") -> Object | None:
        """Return an object or a list; None if it does not exist."""
        try:
            answer, text = self._get(path, accept)
        except (OSError, HTTPException):  # a kept connection may be of a server that has ended
            try:
                answer, text = self._get(path, accept)
            except (OSError, HTTPException) as error:
                raise Refused(f"{path}: {error}") from error
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Refused(f"{path}: {text.decode(errors='replace')}")
        found: Object = json.loads(text)
        return found

    def _get(self, path: str, accept: str) -> tuple[HTTPResponse, bytes]:
        """Read over this thread's connection: a new one costs either side 1 ms of a processor."""
        held = self._held
        if not hasattr(held, "connection"):
            held.connection = HTTPSConnection(self.address, context=self.tls, timeout=60)
        try:
            held.connection.request("GET", path, headers=self.headers | {"Accept": accept})
            answer = held.connection.getresponse()
            return answer, answer.read()
        except (OSError, HTTPException):
            held.connection.close()  # the next request connects again
            raise

    def _discover(self, root: str) -> None:
        groups = (self.read(root, DISCOVERY) or {}).get("items", [])
        for group in reversed(groups):  # of equal names kubectl takes the first one's
            name = group["metadata"].get("name", "")
            version = group["versions"][0]
            begin = "/".join(filter(None, (root, name, version["version"])))
            for each in version["resources"]:
                plural, is_namespaced = each["resource"], each["scope"] == "Namespaced"
                paths = (f"{begin}/namespaces/", f"/{plural}")
                names = [plural, each["singularResource"], *each.get("shortNames", [])]
                for one in (*names, *(f"{one}.{name}" for one in names)):
                    self._paths[one] = paths if is_namespaced else (f"{begin}/{plural}", "")


@cache
def connect(kubeconfig: Path) -> Api:
    """Return the API server of a kubeconfig with one cluster and one user."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b64decode(user["client-certificate-data"]))
            file.write(b64decode(user["client-key-data"]))
            file.flush()
            tls.load_cert_chain(file.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Api(address=urlsplit(cluster["server"]).netloc, tls=tls, headers=headers)
