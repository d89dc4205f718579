"""JobSet's and Kueue's managers as processes: their configurations and command lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.cluster import certificates
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.processes.credentials import kubeconfig
from tests.e2e.cluster.programs import Program

HOOKS: Mapping[str, int] = {"jobset": 9443, "kueue": 9444}
"""Port of the webhooks of each manager."""
HEALTH: Mapping[str, int] = {"jobset": 8081, "kueue": 8082}
NAMES = tuple(HOOKS)
BUSY = (
    "Job.batch",
    "JobSet.jobset.x-k8s.io",
    "LocalQueue.kueue.x-k8s.io",
    "Pod",
    "Workload.kueue.x-k8s.io",
)
"""Kinds of which large gangs make many; Kueue takes 1 to 10 of them at a time by default."""

Config = Mapping[str, Any]


def merge(base: Config, over: Config) -> dict[str, Any]:
    """Return ``over`` laid over ``base``: mappings are merged, all else replaces.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": [4]})
    {'a': {'b': 3, 'c': 2}, 'd': [4]}
    """
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        result[key] = value
    return result


def ours(layout: Layout, name: str) -> dict[str, Any]:
    """Return what a manager outside the cluster needs on top of the shipped configuration."""
    config: dict[str, Any] = {
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {
            "host": str(layout.gateway),
            "port": HOOKS[name],
            "certDir": str(certificates.serving(layout)),
        },
        "health": {"healthProbeBindAddress": f"{layout.gateway}:{HEALTH[name]}"},
        "metrics": {"bindAddress": "0"},
        "clientConnection": {"qps": 2000, "burst": 4000},
    }
    if name == "kueue":
        config["controller"] = {"groupKindConcurrency": dict.fromkeys(BUSY, 20)}
        # Its server would have to be an aggregated API, behind a Service.
        config["featureGates"] = {"VisibilityOnDemand": False}
    return config


def config_file(layout: Layout, name: str) -> Path:
    """Return the file of a manager's configuration."""
    return layout.run / "controllers" / f"{name}.yaml"


def write(layout: Layout, name: str, shipped: Config, overrides: Config) -> None:
    """Write a manager's configuration: shipped, ours, then the overrides."""
    file = config_file(layout, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    content = merge(merge(shipped, ours(layout, name)), overrides)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def manager(layout: Layout, name: str) -> Program:
    """Return the manager ``jobset`` or ``kueue``.

    Kueue reads its metrics certificate below /etc/kueue, wherever it runs: it gets an /etc of its
    own, in a mount namespace that ends with it. ``unshare`` and ``sh`` become the manager.
    """
    argv: tuple[str | Path, ...] = (
        layout.bin / name,
        f"--config={config_file(layout, name)}",
        f"--kubeconfig={kubeconfig(layout, name)}",
    )
    if name == "kueue":
        own = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
        script = 'mount --bind "$0" /etc && exec "$@"'
        argv = (*own, script, layout.pki / certificates.ETC, *argv)
    ready = f"http://{layout.gateway}:{HEALTH[name]}/readyz"
    return Program(name=name, argv=argv, ready=ready)


def hooks_url(layout: Layout, name: str) -> str:
    """Return the address that the API server calls for a manager's webhooks."""
    return f"https://{layout.gateway}:{HOOKS[name]}"
