"""Who may talk to the API server: a token and a kubeconfig for each program and node."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.cluster.layout import Layout

USERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("system:coredns", ()),
    # The managers run with the rights of their released objects, no more.
    "jobset": ("system:serviceaccount:jobset-system:jobset-controller-manager", ()),
    "kueue": ("system:serviceaccount:kueue-system:kueue-controller-manager", ()),
}
ADMIN = ("admin", ("system:masters",))


def users(layout: Layout) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return user and groups by the name of the program or node that is that user."""
    nodes = {node.name: (f"system:node:{node.name}", ("system:nodes",)) for node in layout.nodes}
    return {"admin": ADMIN, **USERS, **nodes}


def token_file(layout: Layout) -> Path:
    """Return the file of the API server's ``--token-auth-file``."""
    return layout.run / "tokens.csv"


def kubeconfig(layout: Layout, name: str) -> Path:
    """Return the kubeconfig file of a program, a node or the administrator."""
    if name == "admin":
        return layout.kubeconfig
    return layout.run / "kubeconfigs" / f"{name}.kubeconfig"


def token_line(token: str, user: str, groups: tuple[str, ...]) -> str:
    """Return one line of the token file.

    >>> token_line("t", "admin", ("system:masters",))
    't,admin,admin,"system:masters"'
    """
    return f'{token},{user},{user},"{",".join(groups)}"'


def config(server: str, authority: bytes, name: str, token: str) -> str:
    """Return the text of a kubeconfig (JSON, which is YAML)."""
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
    """Return what gives the nodes their rights by role, beside the node authorizer.

    That one knows a pod's claims and ConfigMaps some ms later than a kubelet so near to it: "no
    relationship found", and the pod starts 10 s late or more.
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


def write(layout: Layout) -> None:
    """Write the token file and all kubeconfigs with new tokens, readable by root."""
    authority = (layout.pki / "ca.crt").read_bytes()
    lines = []
    for name, (user, groups) in users(layout).items():
        token = secrets.token_hex(24)
        lines.append(token_line(token, user, groups))
        file = kubeconfig(layout, name)
        _write(file, config(layout.api, authority, name, token))
    _write(token_file(layout), "\n".join(lines) + "\n")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
