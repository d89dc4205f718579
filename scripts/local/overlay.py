"""Values that a laptop needs in place of the cluster's: laid over the user's files."""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

NO_QUEUE: dict[str, Any] = {
    "queue": "",
    "priorityClass": "",
    "topology": {"mode": "none", "key": "", "slice": {"size": 0, "key": ""}},
    "maxExecTimeSeconds": None,
    "forceDeleteOnNodeFailure": False,
}
LOOPBACK: dict[str, Any] = {
    "profile": "tcp",
    "resourceName": "",
    "resourceCount": None,
    "attachment": None,
    "transport": None,
    "floorGBs": None,
    "hostNetwork": False,
    "initContainers": [],
    "libraryPath": [],
    "envFile": "",
}
"""All pods share one host: its loopback is the fabric."""


def free_ports(count: int) -> list[int]:
    """Return distinct free ports of the loopback interface."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def overlay(workspace: Path, master_port: int, gang_port: int) -> dict[str, Any]:
    """Return values with a folder of this machine as workspace, these ports, no queue or fabric."""
    return {
        "workspace": {
            "mountPath": str(workspace),
            "hostPath": {"path": str(workspace)},
            "subPath": "",
            "existingClaim": "",
            "pvc": None,
            "nfs": None,
            "emptyDir": None,
        },
        "rendezvous": {"masterPort": master_port, "gangPort": gang_port},
        "kueue": NO_QUEUE,
        "network": LOOPBACK,
        # Its agent is a second process, and needs an API server.
        "restarts": {"agentImage": ""},
    }
