"""Values that a laptop needs in place of the cluster's: laid over the user's files."""

from pathlib import Path
from typing import Any

from launchers.preflight.gang_probes import free_port
from launchers.yaml_file import read_yaml

FILE = Path(__file__).with_suffix(".yaml")


def free_ports(count: int) -> list[int]:
    """Return distinct free ports, which stay free until the stages before them have ended."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def overlay(workspace: Path, master_port: int, gang_port: int) -> dict[str, Any]:
    """Return values with a folder of this machine as workspace, these ports, no queue or fabric."""
    found: dict[str, Any] = read_yaml(FILE)
    found["workspace"] |= {"mountPath": str(workspace), "hostPath": {"path": str(workspace)}}
    return found | {"rendezvous": {"masterPort": master_port, "gangPort": gang_port}}
