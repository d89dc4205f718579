"""CoreDNS for the pods: resolves Services and pods; every other name does not exist."""

from typing import Any

from tests.e2e.cluster.layout import DOMAIN, Layout
from tests.e2e.cluster.processes.credentials import USERS
from tests.e2e.cluster.supervise import Program

PORT, READY_PORT = 53, 8181
ZONE = """\
. 3600 IN SOA ns.invalid. root.invalid. 1 7200 3600 1209600 60
. 3600 IN NS ns.invalid.
"""
"""An empty root zone: no name outside the cluster resolves, and no query leaves it."""


def corefile(layout: Layout) -> str:
    """Return CoreDNS's configuration.

    As in kubeadm, NXDOMAIN answers for the cluster's names are not cached; otherwise a pod that
    looks up a peer too early waits 5 s or more.
    """
    folder = layout.run / "dns"
    return f"""\
.:{PORT} {{
    bind {layout.gateway}
    errors
    ready {layout.gateway}:{READY_PORT}
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig "{layout.kubeconfig_of("coredns")}"
        pods insecure
        ttl 30
    }}
    cache 30 {{
        disable success {DOMAIN}
        disable denial {DOMAIN}
    }}
    file "{folder / "root.zone"}" .
    loadbalance
}}
"""


def write(layout: Layout) -> None:
    """Write the configuration and the empty zone."""
    folder = layout.run / "dns"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Corefile").write_text(corefile(layout), encoding="utf-8")
    (folder / "root.zone").write_text(ZONE, encoding="utf-8")


def coredns(layout: Layout) -> Program:
    """Return CoreDNS; it is ready when it has listed objects from the API server."""
    argv = (layout.bin / "coredns", "-conf", layout.run / "dns" / "Corefile")
    return Program(name="coredns", argv=argv, ready=f"http://{layout.gateway}:{READY_PORT}/ready")


def objects() -> list[dict[str, Any]]:
    name, group = "system:coredns", "rbac.authorization.k8s.io"
    verbs = ["list", "watch"]
    core = {
        "apiGroups": [""],
        "resources": ["endpoints", "services", "pods", "namespaces"],
        "verbs": verbs,
    }
    slices = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs}
    role = {"kind": "ClusterRole", "apiVersion": f"{group}/v1", "metadata": {"name": name}}
    subject = {"kind": "User", "name": USERS["coredns"][0], "apiGroup": group}
    return [
        {**role, "rules": [core, slices]},
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": group},
            "subjects": [subject],
        },
    ]
