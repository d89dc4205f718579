"""New claims, and claims that are bound by the first pod."""

from typing import Any

import pytest

from scripts.doctor.storage import check_claims, check_drivers
from tests.scripts.doctor.healthy import Object, named, objects, release, snapshot

NEW = ("workspace.existingClaim=", "workspace.pvc.size=1Ti")
VOLUME = "workspace.pvc.volumeName=lustre"
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def lines(sets: tuple[str, ...], *more: Object, without: str = "") -> list[tuple[str, str]]:
    chosen = release(*sets)
    there = [item for item in objects() if item["kind"] != without]
    findings = check_claims(chosen, snapshot(chosen, [*there, *more]))
    return [(each.level.value, each.id) for each in findings]


def claim(name: str, **metadata: Any) -> Object:
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, **metadata}}


@pytest.mark.parametrize(
    ("more", "level", "id"),
    [
        (("workspace.pvc.storageClassName=nfs",), "warn", "storage-class-modes"),
        (("workspace.pvc.storageClassName=ceph",), "fail", "storage-class-missing"),
        ((), "fail", "storage-class-no-default"),
        ((VOLUME,), "fail", "storage-class-no-default"),
        ((VOLUME, "workspace.pvc.storageClassName="), "ok", "claim-volume"),
    ],
)
def test_the_class_of_a_new_claim(more: tuple[str, ...], level: str, id: str) -> None:
    assert lines((*NEW, *more)) == [(level, id)]


def test_a_default_class_is_used_and_named() -> None:
    default = named("StorageClass", "efs")
    default["metadata"]["annotations"] = DEFAULT
    assert lines(NEW, default) == [("warn", "storage-class-default")]


@pytest.mark.parametrize(
    ("provisioner", "level", "id"),
    [
        ("ebs.csi.aws.com", "fail", "storage-class-one-node"),
        ("rancher.io/local-path", "warn", "storage-class-local-path"),
    ],
)
def test_a_class_of_disks_of_one_node_is_seen(provisioner: str, level: str, id: str) -> None:
    disks = named("StorageClass", "gp3", provisioner=provisioner)
    chosen = (*NEW, "workspace.pvc.storageClassName=gp3")
    assert lines(chosen, disks) == [(level, id)]
    by_hand = named("StorageClass", "gp3", provisioner="kubernetes.io/no-provisioner")
    assert lines(chosen, by_hand) == [("warn", "storage-class-modes")], "may be NFS"
    disks["metadata"]["annotations"] = DEFAULT
    assert lines(NEW, disks) == [(level, id)]


def test_a_claim_that_was_kept_is_taken_up_by_a_run_of_its_name_only() -> None:
    (name,) = release(*NEW).claims
    mine = claim(name, annotations={"meta.helm.sh/release-name": "dpo"})
    assert lines(NEW, mine) == [("ok", "claim-kept")]
    assert lines(NEW, claim(name)) == [("fail", "claim-of-other-release")]


def test_a_claim_that_waits_for_its_first_pod_is_well() -> None:
    late = named("StorageClass", "late", volumeBindingMode="WaitForFirstConsumer")
    modes = {"accessModes": ["ReadWriteMany"], "storageClassName": "late"}
    waiting = {**claim("training"), "spec": modes, "status": {"phase": "Pending"}}
    assert lines((), late, waiting, without="PersistentVolumeClaim") == [("ok", "claim-ok")]


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        (None, ["csi-driver-missing"]),
        ({}, ["csi-driver-inline"]),  # Mountpoint for S3, and EFS
        ({"volumeLifecycleModes": ["Persistent", "Ephemeral"]}, ["csi-driver-ok"]),
    ],
)
def test_a_driver_must_mount_a_volume_without_a_claim(
    driver: dict[str, Any] | None, found: list[str]
) -> None:
    chosen = release("workspace.existingClaim=", "workspace.csi.driver=s3.csi.aws.com")
    there = [] if driver is None else [named("CSIDriver", "s3.csi.aws.com", spec=driver)]
    findings = check_drivers(chosen, snapshot(chosen, [*objects(), *there]))
    assert [each.id for each in findings] == found
    assert check_drivers(release(), snapshot(release())) == []
