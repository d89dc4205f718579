"""Remedies that several errors share, and those that depend on where the launcher runs."""

import os

from launchers.config.rank import is_jobset, master_port

MEMORY_REMEDY = (
    "raise the pod's memory limit (resources.limits.memory) or lower the number of workers"
)
GPU_MEMORY_REMEDY = "lower recipe.args.max_length, or increase the parallel sizes or recomputation"
RECIPE_REMEDY = "correct the recipe or plugin: a restart would fail again before the first step"
STORAGE_REMEDY = "check the storage of the workspace"
MOUNT_REMEDY = "check the mount of the workspace on this node, and its server"
SPACE_REMEDY = "free space on the workspace or enlarge it"


def here(in_jobset: str, on_host: str) -> str:
    """Return the remedy that names keys of the chart, or the one that names the host's settings."""
    return in_jobset if is_jobset(os.environ) else on_host


def open_ports(gang_port: int) -> str:
    """Return how rank 0 is reached from other hosts (``launchers/HOSTS.md``)."""
    return (
        f"open its ports {gang_port} (DPO_GANG_PORT) and {master_port(os.environ)} (MASTER_PORT) "
        "to the other hosts; containers need --network host"
    )
