"""Storage class ``shared``: pre-created volumes, visible on all nodes, retained after release."""

from pathlib import Path
from typing import Any

from tests.e2e.cluster.layout import Layout

CLASS = "shared"
COUNT = 64
"""Number of volumes; a claim binds one and never returns it."""
SIZE = "1Ti"
"""Larger than any claim; not enforced."""


def folder(layout: Layout, number: int) -> Path:
    """Return the folder behind a volume.

    >>> folder(Layout(), 7).name
    '07'
    """
    return layout.shared / f"{number:02}"


def make_folders(layout: Layout) -> None:
    """Create the volumes' folders, mode 2777: any pod user may write, files inherit the group."""
    for number in range(COUNT):
        path = folder(layout, number)
        path.mkdir(parents=True)
        path.chmod(0o2777)


def objects(layout: Layout) -> list[dict[str, Any]]:
    """Return the class and its volumes; Retain, since a run's workspace outlives the run."""
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }
    return [storage, *(_volume(layout, number) for number in range(COUNT))]


def _volume(layout: Layout, number: int) -> dict[str, Any]:
    path = folder(layout, number)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{CLASS}-{path.name}"},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }
