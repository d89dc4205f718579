"""Remedies that several errors share."""

from __future__ import annotations

MEMORY_REMEDY = (
    "raise the pod's memory limit (resources.limits.memory) or lower the number of workers"
)
GPU_MEMORY_REMEDY = "lower recipe.args.max_length, or increase the parallel sizes or recomputation"
RECIPE_REMEDY = "correct the recipe or plugin: a restart would fail again before the first step"
STORAGE_REMEDY = "check the storage of the workspace"
MOUNT_REMEDY = "check the mount of the workspace on this node, and its server"
SPACE_REMEDY = "free space on the workspace or enlarge it"
