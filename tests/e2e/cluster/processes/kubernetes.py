"""Command lines of etcd, API server, controller manager and scheduler.

Request limits are far above the defaults, so that the machine and not a rate limiter determines how
fast a gang of 1,024 pods is bound.
"""

from pathlib import Path

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.supervise import Program

ETCD, ETCD_PEER, API, MANAGER, SCHEDULER = 2379, 2380, 6443, 10257, 10259
PORTS = (ETCD, ETCD_PEER, API, MANAGER, SCHEDULER)
RATE = ("--kube-api-qps=2000", "--kube-api-burst=4000")


def etcd(layout: Layout) -> Program:
    """Return etcd: mutual TLS, since pods reach the bridge; no fsync, since data is discarded."""
    client, peer = (f"https://{layout.gateway}:{port}" for port in (ETCD, ETCD_PEER))
    pki = layout.pki
    trust = [
        word
        for prefix in ("", "peer-")
        for word in (
            f"--{prefix}trusted-ca-file={pki / 'ca.crt'}",
            f"--{prefix}cert-file={pki / 'server.crt'}",
            f"--{prefix}key-file={pki / 'server.key'}",
            f"--{prefix}client-cert-auth",
        )
    ]
    argv: tuple[str | Path, ...] = (
        layout.bin / "etcd",
        "--name=one",
        f"--data-dir={layout.run / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=one={peer}",
        *trust,
    )
    return Program(name="etcd", argv=argv)


def api_server(layout: Layout) -> Program:
    """Return the API server; it calls kubelets by address, since node names do not resolve."""
    pki = layout.pki
    argv: tuple[str | Path, ...] = (
        layout.control_plane / "kube-apiserver",
        *_listen(layout, API),
        f"--advertise-address={layout.gateway}",
        f"--etcd-servers=https://{layout.gateway}:{ETCD}",
        f"--etcd-cafile={pki / 'ca.crt'}",
        f"--etcd-certfile={pki / 'server.crt'}",
        f"--etcd-keyfile={pki / 'server.key'}",
        f"--kubelet-client-certificate={pki / 'server.crt'}",
        f"--kubelet-client-key={pki / 'server.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-cluster-ip-range={layout.services}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        "--feature-gates=ImageVolume=true",  # the default from 1.35 on
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1500",
    )
    return Program(name="kube-apiserver", argv=argv, ready=f"{layout.api}/readyz")


def controller_manager(layout: Layout) -> Program:
    """Return the controller manager; tests rely on its default node-loss timeouts."""
    argv: tuple[str | Path, ...] = (
        layout.control_plane / "kube-controller-manager",
        *_listen(layout, MANAGER),
        f"--kubeconfig={layout.kubeconfig_of('kube-controller-manager')}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--concurrent-job-syncs=50",
        "--concurrent-gc-syncs=50",
        *RATE,
    )
    ready = f"https://{layout.gateway}:{MANAGER}/healthz"
    return Program(name="kube-controller-manager", argv=argv, ready=ready)


def scheduler(layout: Layout) -> Program:
    argv: tuple[str | Path, ...] = (
        layout.control_plane / "kube-scheduler",
        *_listen(layout, SCHEDULER),
        f"--kubeconfig={layout.kubeconfig_of('kube-scheduler')}",
        "--leader-elect=false",
        *RATE,
    )
    ready = f"https://{layout.gateway}:{SCHEDULER}/healthz"
    return Program(name="kube-scheduler", argv=argv, ready=ready)


def _listen(layout: Layout, port: int) -> tuple[str, ...]:
    return (
        f"--bind-address={layout.gateway}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.pki / 'server.crt'}",
        f"--tls-private-key-file={layout.pki / 'server.key'}",
    )
