"""Namespace of one test, created for it and removed after it."""

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e import diagnosis
from tests.e2e.cluster.cluster import Cluster
from tests.e2e.kubectl import Kubectl
from tests.e2e.until import until

LABEL = "megatron-dpo.example.com/e2e"
ENFORCE = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True, kw_only=True)
class Space:
    name: str
    kubectl: Kubectl
    cluster: Cluster
    folder: Path
    """Temporary folder of the test, for values files."""
    volumes: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    """Names of the cluster-scoped objects that belong to this namespace."""

    @property
    def workspace(self) -> Path:
        return self.cluster.layout.shared / f"{self.name}-training"


Opened = Callable[..., AbstractContextManager[Space]]
"""Opens a namespace by its name, with a Pod Security level."""
OPEN: list[Space] = []
"""Existing namespaces, for the report of a failed test."""
WRECKS: list[tuple[str, str]] = []
"""Name and state of namespaces that were removed before the report because their fixture failed."""


@contextmanager
def opened(
    cluster: Cluster, kubectl: Kubectl, name: str, level: str, folder: Path
) -> Iterator[Space]:
    """Create a namespace that enforces a Pod Security level; remove it at the end."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:36].strip("-")
    unique = f"e2e-{slug}-{secrets.token_hex(2)}"
    space = Space(name=unique, kubectl=kubectl.at(unique), cluster=cluster, folder=folder)
    labels = {LABEL: "true", ENFORCE: level}
    kubectl.apply(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique, "labels": labels}}]
    )
    OPEN.append(space)
    try:
        yield space
    except BaseException:
        WRECKS.append((unique, diagnosis.report(space.kubectl)))
        raise
    finally:
        OPEN.remove(space)
        close(space)


def close(space: Space) -> None:
    """Uninstall the runs, wait until their pods are gone, then remove the rest."""
    kubectl = space.kubectl
    try:
        kubectl.delete("jobsets", "--all", "--cascade=foreground")
        kubectl.delete("pods", "--all")
        kubectl.delete("namespace", space.name, wait=False)
    finally:  # also where a pod outlasts kubectl: a queue left behind disturbs later tests
        for name in (*space.queues, *space.volumes):
            kubectl.delete(name, wait=False)
    for number in range(len(space.volumes)):
        folder = space.cluster.layout.shared / space.volumes[number].partition("/")[2]
        shutil.rmtree(folder)


def await_gone(kubectl: Kubectl, seconds: float) -> None:
    """Wait until all test namespaces are deleted; deletion continues after each test."""

    def gone() -> bool:
        return not kubectl.items("namespaces", selector=LABEL)

    until("all namespaces of the tests are gone", gone, seconds=seconds)
