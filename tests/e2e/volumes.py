"""Claims on a folder that host and nodes share, so that tests access the workspace."""

import time
from pathlib import Path, PurePosixPath

from tests.e2e.api import Object
from tests.e2e.space import Space
from tests.e2e.until import until

CLASS = "shared"
SIZE = "1Ti"


def claim(space: Space, name: str, mode: str = "ReadWriteMany") -> Path:
    """Create a claim bound to its own volume; return the host folder.

    It does not use the class's prepared volumes, which are never released by their first claim.
    """
    volume = f"{space.name}-{name}"
    folder = space.cluster.layout.shared / volume
    folder.mkdir()
    folder.chmod(0o2777)
    space.volumes.append(f"persistentvolume/{volume}")
    space.kubectl.apply([_volume(space, volume, mode), _claim(space, name, volume, mode)])
    until(f"claim {name} is bound", lambda: _bound(space, name), seconds=30, pause=0.3)
    return folder


def on_nodes(space: Space) -> PurePosixPath:
    """Return the shared folder's path on the nodes, from the class's own volumes."""
    first = space.kubectl.get("persistentvolume", f"{CLASS}-00")
    return PurePosixPath(first["spec"]["hostPath"]["path"]).parent


def _bound(space: Space, name: str) -> bool:
    """Return whether a claim is bound; if not, trigger another look by the binder.

    If the binder's two workers write to one volume, the second gives up until the next resync, 15 s
    later; a change of the claim triggers it at once.
    """
    if space.kubectl.get("persistentvolumeclaim", name)["status"].get("phase") == "Bound":
        return True
    nudge = f"megatron-dpo.example.com/nudged={time.monotonic()}"
    space.kubectl.run("annotate", "persistentvolumeclaim", name, "--overwrite", nudge)
    return False


def _volume(space: Space, volume: str, mode: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": SIZE},
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(on_nodes(space) / volume), "type": "Directory"},
        },
    }


def _claim(space: Space, name: str, volume: str, mode: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": space.name},
        "spec": {
            "storageClassName": CLASS,
            "accessModes": [mode],
            "resources": {"requests": {"storage": SIZE}},
            "volumeName": volume,
        },
    }
