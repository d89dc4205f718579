"""Verify that all nodes share the workspace: each sees the outputs that rank 0 made."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path

from launchers.exits import Exit, LaunchError
from launchers.storage import marker
from launchers.storage.manifest import wrong_size
from launchers.system.remedies import here

VISIBILITY_TIMEOUT_SECONDS = 60.0
"""Time for rank 0's files to appear on other nodes: NFS clients cache attributes."""


def shared_remedy() -> str:
    """Return where a workspace has to be."""
    return here(
        "use a workspace shared by all pods: existingClaim, nfs or pvc (ReadWriteMany)",
        "set DPO_WORKSPACE to a folder that all hosts mount from one file system, such as NFS",
    )


def await_outputs(
    outputs: Sequence[Sequence[str]], *, timeout: float = VISIBILITY_TIMEOUT_SECONDS
) -> None:
    """Wait until this node sees rank 0's outputs.

    Raises:
        LaunchError: CONFIG naming the first output that is missing or differs: the workspace, or a
            library, is not shared; IO if this node's mount does not answer.
    """
    stop = time.monotonic() + timeout
    for path, digest in outputs:
        while (seen := marker.digest_of(Path(path))) != digest:
            if time.monotonic() >= stop:
                what = "differs" if seen else "is missing"
                raise LaunchError(
                    Exit.CONFIG,
                    f"{path} {what} on this node after {timeout:.0f} s",
                    shared_remedy(),
                    id="workspace-not-shared",
                )
            time.sleep(0.5)
        _check_place(Path(path))


def _check_place(path: Path) -> None:
    """Compare the sizes of files that are used in place with those that rank 0 has seen."""
    there = marker.read(path)
    made = there.made if there else {}
    place, seen = made.get("place"), made.get("seen")
    if not isinstance(place, str) or not isinstance(seen, dict):
        return  # of an older launcher, or files of the workspace itself
    if wrong := wrong_size(Path(place), {name: size for name, (size, _) in seen.items()}):
        raise LaunchError(
            Exit.CONFIG,
            f"{place}: {wrong} on {socket.gethostname()}",
            "mount the same files on all nodes, or let them be copied: "
            + here("mount them without readOnly", "unset DPO_LIBRARIES"),
            id="library-differs",
        )
