"""The authority of one cluster, one certificate for all its servers, one key for its accounts."""

from __future__ import annotations

from pathlib import Path

import trustme

from tests.e2e.cluster.layout import SERVICES, Layout

NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
ETC = "etc"
"""Folder in ``pki`` that Kueue sees as /etc: it reads its metrics certificate at a fixed path."""


def names(layout: Layout) -> tuple[str, ...]:
    """Return what a client may call a server of this cluster.

    >>> names(Layout())[:3]
    ('10.201.0.1', '127.0.0.1', '10.96.0.1')
    """
    service = next(SERVICES.hosts())
    return (str(layout.gateway), "127.0.0.1", str(service), *NAMES, "localhost")


def serving(layout: Layout) -> Path:
    """Return the folder with tls.crt and tls.key for the webhooks, where Kueue looks too."""
    return layout.pki / ETC / "kueue" / "metrics" / "certs"


def write(layout: Layout) -> None:
    """Write authority, servers' certificate and service accounts' key, readable by root.

    The servers' certificate is also the API server's own towards etcd and the kubelets: its
    organisation is a group that may do anything there.
    """
    authority = trustme.CA(organization_name="megatron-dpo cluster")
    server = authority.issue_cert(
        *names(layout), common_name="kube-apiserver", organization_name="system:masters"
    )
    accounts = authority.issue_cert("service-accounts.invalid")
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    key = server.private_key_pem.bytes()
    _write(layout.pki / "ca.crt", authority.cert_pem.bytes())
    _write(layout.pki / "ca.key", authority.private_key_pem.bytes())
    _write(layout.pki / "server.crt", chain)
    _write(layout.pki / "server.key", key)
    _write(layout.pki / "service-account.key", accounts.private_key_pem.bytes())
    _write(serving(layout) / "tls.crt", chain)
    _write(serving(layout) / "tls.key", key)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(content)
