"""The launcher's image volume against the container runtimes of the nodes."""

import pytest

from scripts.doctor.nodes import check_image_volumes
from tests.scripts.doctor.healthy import node, release, snapshot
from tests.scripts.doctor.plant import hosted

VOLUME = {"name": "package", "image": {"reference": "registry.test/launchers@sha256:0"}}


@pytest.mark.parametrize(
    ("runtimes", "levels"),
    [
        (("containerd://2.1.4", "cri-o://1.35.0"), ["ok"]),
        (("containerd://1.7.28", "containerd://2.1.4"), ["warn"]),
        (("containerd://2.0.9", "cri-o://1.30.1"), ["fail"]),
        (("containerd://2.1.4 v1.34.2", "containerd://2.1.4 v1.35.0"), ["warn"]),
        (("containerd://2.1.4 v1.34.2",), ["fail"]),
        ((), []),
    ],
)
def test_the_runtimes_and_kubelets_of_the_nodes(
    runtimes: tuple[str, ...], levels: list[str]
) -> None:
    hosts = [node(f"host-{number}") for number, _ in enumerate(runtimes)]
    for host, runtime in zip(hosts, runtimes, strict=True):
        name, _, kubelet = runtime.partition(" ")
        info = {"containerRuntimeVersion": name, "kubeletVersion": kubelet or "v1.35.1"}
        host["status"]["nodeInfo"] = info
    pod = release().gang.pod
    mounted = release().with_pods({"node": {**pod, "volumes": [*pod["volumes"], VOLUME]}})
    findings = check_image_volumes(mounted, snapshot(release(), hosted(*hosts)))
    assert [each.level.value for each in findings] == levels


def test_without_an_image_volume_nothing_is_checked() -> None:
    assert check_image_volumes(release(), snapshot(release())) == []
