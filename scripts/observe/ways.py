"""Ways to read the workspace, in a module that a command's help imports quickly."""

from enum import StrEnum


class Source(StrEnum):
    """Way to read the workspace."""

    AUTO = "auto"
    MOUNT = "mount"
    EXEC = "exec"
    POD = "pod"
    API = "api"
    """Not at all."""
