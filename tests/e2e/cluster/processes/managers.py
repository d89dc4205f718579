"""Configurations and command lines of JobSet's and Kueue's controller managers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes import credentials
from tests.e2e.cluster.supervise import Program
from tests.e2e.merge import merge

WEBHOOK_PORTS: Mapping[str, int] = {"jobset": 9443, "kueue": 9444}
HEALTH_PORTS: Mapping[str, int] = {"jobset": 8081, "kueue": 8082}
CONCURRENT_KINDS = (
    "Job.batch",
    "JobSet.jobset.x-k8s.io",
    "LocalQueue.kueue.x-k8s.io",
    "Pod",
    "Workload.kueue.x-k8s.io",
)
"""Kinds that large gangs create many of; by default Kueue reconciles 1 to 10 at a time."""

Config = Mapping[str, Any]


def outside_config(layout: Layout, name: str) -> dict[str, Any]:
    """Return the settings that a manager outside the cluster needs over the shipped ones."""
    config: dict[str, Any] = {
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {
            "host": str(layout.gateway),
            "port": WEBHOOK_PORTS[name],
            "certDir": str(credentials.webhook_certificates(layout)),
        },
        "health": {"healthProbeBindAddress": f"{layout.gateway}:{HEALTH_PORTS[name]}"},
        "metrics": {"bindAddress": "0"},
        "clientConnection": {"qps": 2000, "burst": 4000},
    }
    if name == "kueue":
        config["controller"] = {"groupKindConcurrency": dict.fromkeys(CONCURRENT_KINDS, 20)}
        # This server would have to be an aggregated API behind a Service.
        config["featureGates"] = {"VisibilityOnDemand": False}
    return config


def config_file(layout: Layout, name: str) -> Path:
    return layout.run / "controllers" / f"{name}.yaml"


def write(layout: Layout, name: str, shipped: Config, overrides: Config) -> None:
    """Write a manager's configuration: shipped, then ``outside_config``, then overrides."""
    file = config_file(layout, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    content = merge(merge(shipped, outside_config(layout, name)), overrides)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def manager(layout: Layout, name: str) -> Program:
    """Return the manager ``jobset`` or ``kueue``.

    Kueue reads its metrics certificate below /etc/kueue, so it runs in its own mount namespace with
    its own /etc. ``unshare`` and ``sh`` exec into the manager.
    """
    argv: tuple[str | Path, ...] = (
        layout.bin / name,
        f"--config={config_file(layout, name)}",
        f"--kubeconfig={layout.kubeconfig_of(name)}",
    )
    if name == "kueue":
        wrapper = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
        script = 'mount --bind "$0" /etc && exec "$@"'
        argv = (*wrapper, script, layout.pki / credentials.ETC, *argv)
    ready = f"http://{layout.gateway}:{HEALTH_PORTS[name]}/readyz"
    return Program(name=name, argv=argv, ready=ready)


def webhooks_url(layout: Layout, name: str) -> str:
    return f"https://{layout.gateway}:{WEBHOOK_PORTS[name]}"
