"""An API server of its own on a loopback address: etcd and kube-apiserver, nothing else."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from tests.chart import test_crd
from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import credentials, kubernetes


@dataclass(frozen=True, kw_only=True)
class Loopback(Layout):
    """One address of the loopback network's 127.0.0.0/8, by this process's id.

    Other programs may listen on the same ports of 127.0.0.1.
    """

    @property
    def network(self) -> IPv4Network:
        return IPv4Network(f"127.{10 + os.getpid() % 240}.0.0/16")


BUILT = Layout()
"""Folder of the built programs."""
GATES = ("ImageVolume", "ClusterTrustBundle", "ClusterTrustBundleProjection")
"""Features of the pod that are off by default: a schema cannot know which are on."""
EXISTENCE = ("ServiceAccount", "Priority", "RuntimeClass", "DefaultTolerationSeconds")
"""Admission plugins that look up other objects, or change the pod."""
PATHS: Mapping[str, str] = {
    "ConfigMap": "api/v1/namespaces/default/configmaps",
    "CustomResourceDefinition": "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Job": "apis/batch/v1/namespaces/default/jobs",
    "JobSet": "apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "LimitRange": "api/v1/namespaces/default/limitranges",
    "NetworkPolicy": "apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    "PersistentVolumeClaim": "api/v1/namespaces/default/persistentvolumeclaims",
    "Pod": "api/v1/namespaces/default/pods",
    "Role": "apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "ServiceAccount": "api/v1/namespaces/default/serviceaccounts",
}
"""Path of a kind's objects."""

JOBSET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}}


@dataclass(frozen=True, kw_only=True)
class Server:
    layout: Layout
    connection: http.client.HTTPSConnection
    token: str

    def refusal(self, document: Mapping[str, Any]) -> str:
        """Create an object in a dry run; return the server's message, empty if it accepts."""
        status, answer = self._ask(document, "?dryRun=All&fieldValidation=Strict")
        if status == 201:
            return ""
        if status not in (400, 413, 422):
            raise AssertionError(f"{status}: {answer}")
        return str(answer["message"])

    @contextmanager
    def again(self) -> Iterator[Server]:
        """Yield a further connection to the same server."""
        with closing(_connection(self.layout)) as connection:
            yield replace(self, connection=connection)

    def define(self, resource: Mapping[str, Any], probe: Mapping[str, Any]) -> None:
        status, answer = self._ask(resource, "")
        assert status == 201, answer
        deadline = time.monotonic() + 60
        while self._ask(probe, "?dryRun=All")[0] == 404:
            assert time.monotonic() < deadline, f"{resource['metadata']['name']} is not served"
            time.sleep(0.1)

    def _ask(self, document: Mapping[str, Any], query: str) -> tuple[int, Any]:
        self.connection.request(
            "POST",
            f"/{PATHS[document['kind']]}{query}",
            body=json.dumps(document),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        response = self.connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text[:1] == b"{" else text.decode()


@contextmanager
def start(folder: Path) -> Iterator[Server]:
    """Run both programs below a folder until the block ends."""
    for built in {BUILT.bin, BUILT.control_plane}:
        (folder / built.name).symlink_to(built)
    layout = Loopback(home=folder, size=0)
    credentials.write(layout)
    api = kubernetes.api_server(layout)
    gates = ",".join(f"{gate}=true" for gate in GATES)
    more = (
        f"--feature-gates={gates}",
        f"--disable-admission-plugins={','.join(EXISTENCE)}",
        # From 1.37 on, a server that announces itself may not have a loopback address.
        "--endpoint-reconciler-type=none",
    )
    programs = (kubernetes.etcd(layout), replace(api, argv=(*api.argv, *more)))
    try:
        for program in programs:
            supervise.start(layout, program.name, program.argv)
        for program in programs:
            supervise.wait_ready(layout, program)
        token = json.loads(layout.kubeconfig.read_text("utf-8"))["users"][0]["user"]["token"]
        with closing(_connection(layout)) as connection:
            server = Server(layout=layout, connection=connection, token=token)
            server.define(test_crd.resource(), JOBSET)
            yield server
    finally:
        for program in reversed(programs):
            supervise.stop(layout, program.name)


def _connection(layout: Layout) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=layout.pki / "ca.crt")
    address = str(layout.gateway)
    return http.client.HTTPSConnection(address, kubernetes.API, timeout=60, context=context)
