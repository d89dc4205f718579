"""Certificates, tokens and kubeconfigs of the cluster's programs, nodes and administrator."""

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trustme

from tests.e2e.cluster.layout import Layout

USERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("system:coredns", ()),
    # The managers have the permissions of their released roles only.
    "jobset": ("system:serviceaccount:jobset-system:jobset-controller-manager", ()),
    "kueue": ("system:serviceaccount:kueue-system:kueue-controller-manager", ()),
}
"""User name and groups of each program."""
ADMIN = ("admin", ("system:masters",))
SERVER_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
ETC = "etc"
"""Folder in ``pki`` that is mounted at /etc for Kueue: its metrics certificate has a fixed path."""


def write(layout: Layout) -> None:
    """Write new certificates, tokens and kubeconfigs, readable by root only."""
    write_certificates(layout)
    write_kubeconfigs(layout)


def write_certificates(layout: Layout) -> None:
    """Write the CA, the servers' certificate and the key of service accounts.

    The API server uses the servers' certificate as a client of etcd and the kubelets too: its
    organization is a group with all permissions.
    """
    authority = trustme.CA(organization_name="megatron-dpo cluster")
    server = authority.issue_cert(
        *server_names(layout), common_name="kube-apiserver", organization_name="system:masters"
    )
    accounts = authority.issue_cert("service-accounts.invalid")
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    key = server.private_key_pem.bytes()
    _write(layout.pki / "ca.crt", authority.cert_pem.bytes())
    _write(layout.pki / "ca.key", authority.private_key_pem.bytes())
    _write(layout.pki / "server.crt", chain)
    _write(layout.pki / "server.key", key)
    _write(layout.pki / "service-account.key", accounts.private_key_pem.bytes())
    _write(webhook_certificates(layout) / "tls.crt", chain)
    _write(webhook_certificates(layout) / "tls.key", key)


def write_kubeconfigs(layout: Layout) -> None:
    """Write a new token and a kubeconfig for each user."""
    authority = (layout.pki / "ca.crt").read_bytes()
    lines = []
    for name, (user, groups) in users(layout).items():
        token = secrets.token_hex(24)
        lines.append(token_line(token, user, groups))
        file = layout.kubeconfig if name == "admin" else layout.kubeconfig_of(name)
        _write(file, kubeconfig(layout.api, authority, name, token).encode())
    _write(layout.tokens, ("\n".join(lines) + "\n").encode())


def server_names(layout: Layout) -> tuple[str, ...]:
    """Return the addresses and names in the servers' certificate.

    >>> server_names(Layout())[:3]
    ('10.201.0.1', '127.0.0.1', '10.96.0.1')
    """
    service = next(layout.services.hosts())
    return (str(layout.gateway), "127.0.0.1", str(service), *SERVER_NAMES, "localhost")


def webhook_certificates(layout: Layout) -> Path:
    """Return the folder with tls.crt and tls.key of the webhooks and of Kueue's metrics."""
    return layout.pki / ETC / "kueue" / "metrics" / "certs"


def users(layout: Layout) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return user name and groups of each program, each node and the administrator."""
    nodes = {node.name: (f"system:node:{node.name}", ("system:nodes",)) for node in layout.nodes}
    return {"admin": ADMIN, **USERS, **nodes}


def token_line(token: str, user: str, groups: tuple[str, ...]) -> str:
    """Return one line of the token file.

    >>> token_line("t", "admin", ("system:masters",))
    't,admin,admin,"system:masters"'
    """
    return f'{token},{user},{user},"{",".join(groups)}"'


def kubeconfig(server: str, authority: bytes, name: str, token: str) -> str:
    data = base64.b64encode(authority).decode("ascii")
    cluster = {"server": server, "certificate-authority-data": data}
    context = {"cluster": "megatron-dpo", "user": name}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "megatron-dpo", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "megatron-dpo", "context": context}],
        "current-context": "megatron-dpo",
    }
    return json.dumps(content, indent=1) + "\n"


def objects() -> list[dict[str, Any]]:
    """Return the role binding of the nodes, in addition to the node authorizer.

    The authorizer learns of a pod's claims and ConfigMaps some milliseconds after the kubelet asks
    for them. It then answers "no relationship found", and the pod starts 10 s late or more.
    """
    group, name = "rbac.authorization.k8s.io", "system:node"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "megatron-dpo:nodes"},
        "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": group},
        "subjects": [{"kind": "Group", "name": "system:nodes", "apiGroup": group}],
    }
    return [binding]


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(content)
