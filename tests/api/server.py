"""An API server of its own on a loopback address: etcd and kube-apiserver, nothing else."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import credentials, kubernetes

BUILT = Layout()
"""Where the programs are built."""
GATES = ("ImageVolume", "ClusterTrustBundle", "ClusterTrustBundleProjection")
"""Features of the pod that are off by default: whether a cluster has them is no matter of form."""
EXISTENCE = ("ServiceAccount", "Priority", "RuntimeClass", "DefaultTolerationSeconds")
"""Admission plugins that look up other objects, or change the pod."""
PATHS: Mapping[str, str] = {
    "ConfigMap": "api/v1/namespaces/default/configmaps",
    "NetworkPolicy": "apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    "PersistentVolumeClaim": "api/v1/namespaces/default/persistentvolumeclaims",
    "Pod": "api/v1/namespaces/default/pods",
    "ServiceAccount": "api/v1/namespaces/default/serviceaccounts",
}
"""Path of a kind's objects."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A connection to a running API server."""

    connection: http.client.HTTPSConnection
    token: str

    def refusal(self, document: Mapping[str, Any]) -> str:
        """Create an object in a dry run; return the server's message, empty if it accepts."""
        self.connection.request(
            "POST",
            f"/{PATHS[document['kind']]}?dryRun=All&fieldValidation=Strict",
            body=json.dumps(document),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status == 201:
            return ""
        if response.status not in (400, 413, 422):
            raise AssertionError(f"{response.status}: {answer}")
        return str(answer["message"])


@contextmanager
def start(folder: Path) -> Iterator[Server]:
    """Run both programs below a folder until the block ends.

    The address is one of the loopback network's 127.0.0.0/8, by this process's id: other programs
    may listen on the same ports of 127.0.0.1.
    """
    for built in {BUILT.bin, BUILT.control_plane}:
        (folder / built.name).symlink_to(built)
    network = IPv4Network(f"127.{10 + os.getpid() % 240}.0.0/16")
    layout = Layout(home=folder, size=0, network=network)
    credentials.write(layout)
    api = kubernetes.api_server(layout)
    gates = ",".join(f"{gate}=true" for gate in GATES)
    more = (f"--feature-gates={gates}", f"--disable-admission-plugins={','.join(EXISTENCE)}")
    programs = (kubernetes.etcd(layout), replace(api, argv=(*api.argv, *more)))
    try:
        for program in programs:
            supervise.start(layout, program.name, program.argv)
        for program in programs:
            supervise.wait_ready(layout, program)
        context = ssl.create_default_context(cafile=layout.pki / "ca.crt")
        connection = http.client.HTTPSConnection(
            str(layout.gateway), kubernetes.API, timeout=60, context=context
        )
        config = json.loads(layout.kubeconfig.read_text(encoding="utf-8"))
        yield Server(connection=connection, token=config["users"][0]["user"]["token"])
        connection.close()
    finally:
        for program in reversed(programs):
            supervise.stop(layout, program.name)
