"""A separate API server without JobSet and Kueue: an unprepared cluster.

It shares the etcd of the running cluster, under its own prefix, and its certificates.
"""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.e2e.api import Object
from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import kubernetes, manifests
from tests.e2e.kubectl import Kubectl
from tests.e2e.until import until

NAME = "foreign-apiserver"


@contextmanager
def api_server(layout: Layout, kubectl: Kubectl, folder: Path) -> Iterator[Kubectl]:
    port = free_port(str(layout.gateway))
    shipped = kubernetes.api_server(layout)
    words = [word for word in map(str, shipped.argv) if not word.startswith("--secure-port")]
    prefix = f"--etcd-prefix=/foreign-{secrets.token_hex(4)}"
    url = f"https://{layout.gateway}:{port}"
    program = replace(
        shipped,
        name=NAME,
        argv=(*words, f"--secure-port={port}", prefix),
        ready=f"{url}/readyz",
    )
    config = folder / "kubeconfig"
    text = layout.kubeconfig.read_text(encoding="utf-8")
    config.write_text(text.replace(layout.api, url), encoding="utf-8")
    supervise.start(layout, NAME, program.argv)
    try:
        supervise.wait_ready(layout, program)
        yield replace(kubectl, kubeconfig=config)
    finally:
        supervise.stop(layout, NAME)


def free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def crds(tool: str) -> list[Object]:
    found = manifests.rewrite(manifests.released(Layout(), tool), "https://127.0.0.1", "")
    kept = [item for item in found if item["kind"] == "CustomResourceDefinition"]
    for item in kept:
        item["spec"].pop("conversion", None)
    return kept


def install(kubectl: Kubectl, objects: list[Object]) -> None:
    kubectl.apply(objects)
    for item in objects:
        name = item["metadata"]["name"]
        until(f"{name} is served", lambda n=name: established(kubectl, n), seconds=30)  # type: ignore[misc]


def established(kubectl: Kubectl, name: str) -> bool:
    status = kubectl.get("customresourcedefinition", name).get("status", {})
    found = {c["type"]: c["status"] for c in status.get("conditions") or []}
    return found.get("Established") == "True"
