"""Values that a laptop needs in place of the cluster's: laid over the user's files."""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from launchers.yaml_file import read_yaml

FILE = Path(__file__).with_suffix(".yaml")


def free_ports(count: int) -> list[int]:
    """Return distinct free ports of the loopback interface."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def overlay(workspace: Path, master_port: int, gang_port: int) -> dict[str, Any]:
    """Return values with a folder of this machine as workspace, these ports, no queue or fabric."""
    found: dict[str, Any] = read_yaml(FILE)
    found["workspace"] |= {"mountPath": str(workspace), "hostPath": {"path": str(workspace)}}
    return found | {"rendezvous": {"masterPort": master_port, "gangPort": gang_port}}
