"""Node affinity, taints, selectors, GPU models and container runtimes of nodes."""

from dataclasses import replace
from typing import Any

import pytest

from launchers.config.gpu_models import GPU_PRODUCT
from scripts.doctor import nodes
from scripts.doctor.api import Answer
from scripts.doctor.nodes import selects, selects_node, tolerates, untolerated
from scripts.quantity import DEVICE_CLASS
from tests.scripts.doctor.healthy import forbidden, found, named, node, release, snapshot
from tests.scripts.doctor.plant import hosted

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def required(*terms: Any) -> dict[str, Any]:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": rule}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


HOSTNAME = "kubernetes.io/hostname"
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["host-1"]}]}


@pytest.mark.parametrize(
    ("pod", "is_chosen"),
    [
        ({}, True),
        ({"nodeSelector": {HOSTNAME: "host-1"}}, True),
        ({"nodeSelector": {HOSTNAME: "host-2"}}, False),
        (required(expression(HOSTNAME, "In", "host-2"), expression(HOSTNAME, "Exists")), True),
        (required(expression(HOSTNAME, "NotIn", "host-1")), False),
        (required(expression("gpus", "Gt", "4")), False),
        (required(expression("gpus", "DoesNotExist")), True),
        (required(BY_NAME), True),
        (required({}), False),
    ],
)
def test_nodes_are_chosen_by_selector_and_affinity(pod: dict[str, Any], is_chosen: bool) -> None:
    assert selects_node(pod, node("host-1")) is is_chosen


@pytest.mark.parametrize(
    ("toleration", "does"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "value": "no"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], does: bool) -> None:
    assert tolerates(toleration, GPU) is does
    left = [] if does else ["nvidia.com/gpu=present:NoSchedule"]
    assert untolerated([GPU], [toleration]) == left


GPUS = named("DeviceClass", "gpu.nvidia.com", spec={"extendedResourceName": "example.com/gpu"})


@pytest.mark.parametrize(
    ("resource", "classes", "level"),
    [
        (f"{DEVICE_CLASS}gpu.nvidia.com", found({}), "ok"),
        ("example.com/gpu", found({"items": [GPUS]}), "ok"),
        ("example.com/gpu", found({}), "fail"),
        ("example.com/gpu", forbidden("deviceclasses"), "warn"),
        ("nvidia.com/gpu", forbidden("deviceclasses"), "fail"),
    ],
)
def test_devices_that_dra_gives_are_not_counted_on_nodes(
    resource: str, classes: Answer, level: str
) -> None:
    chosen = release(f"gpuResource={resource}")
    half = node("host-2", **{"nvidia.com/gpu": "4"})
    there = snapshot(chosen, hosted(node("host-1"), half))
    there = replace(there, lists={**there.lists, "deviceclasses": classes})
    [finding] = nodes.check_nodes(chosen, there)
    assert finding.level == level


def test_a_soft_taint_keeps_nothing_away() -> None:
    assert untolerated([{**GPU, "effect": "PreferNoSchedule"}], []) == []


def test_an_absent_selector_takes_nothing_and_an_empty_one_all() -> None:
    assert not selects(None, {"a": "1"})
    assert selects({}, {})
    assert selects({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": "1"})
    assert not selects({"matchLabels": {"a": "1"}}, {})


A100 = "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("products", "levels"),
    [
        ((A100, A100), ["ok"]),
        ((A100, "NVIDIA-H200"), ["warn"]),
        (("NVIDIA-H200", "NVIDIA-H200"), ["fail"]),
        ((None, None), ["warn"]),
    ],
)
def test_the_gpu_of_the_values_is_compared_with_the_product_label(
    products: tuple[str | None, ...], levels: list[str]
) -> None:
    hosts = [node(f"host-{number}") for number, _ in enumerate(products)]
    for host, product in zip(hosts, products, strict=True):
        del host["metadata"]["labels"][GPU_PRODUCT]
        host["metadata"]["labels"] |= {GPU_PRODUCT: product} if product else {}
    findings = nodes.check_gpu_model(release(), snapshot(release(), hosted(*hosts)))
    assert [each.level.value for each in findings] == levels


MIG, TIMED, SHARING = f"{A100}-MIG-3g.40gb", f"{A100}-SHARED", "nvidia.com/gpu.sharing-strategy"
NEWER = "registry.test/swift:ubuntu22.04-cuda13.0.3-swift4.5.3"


@pytest.mark.parametrize(
    ("ones", "others", "found"),
    [
        ({GPU_PRODUCT: MIG}, {GPU_PRODUCT: MIG}, [("fail", "gpu-slices")]),
        ({GPU_PRODUCT: TIMED}, {GPU_PRODUCT: TIMED}, [("warn", "gpu-slices")]),
        ({SHARING: "mps", "nvidia.com/gpu.replicas": "4"}, {}, [("warn", "gpu-slices")]),
        ({SHARING: "none", "nvidia.com/gpu.replicas": "1"}, {}, []),
        ({"kubernetes.io/arch": "arm64"}, {}, [("warn", "node-architecture")]),
        ({"nvidia.com/cuda.driver-version.major": "570"}, {}, [("warn", "node-driver")]),
        ({"nvidia.com/cuda.driver.major": "580"}, {"kubernetes.io/arch": "amd64"}, []),
    ],
)
def test_labels_say_whether_nodes_have_whole_gpus_for_the_image(
    ones: dict[str, str], others: dict[str, str], found: list[tuple[str, str]]
) -> None:
    hosts = [node("host-1"), node("host-2")]
    for host, labels in zip(hosts, (ones, others), strict=True):
        host["metadata"]["labels"] |= labels
    container = {**release().gang.container, "image": NEWER}
    chosen = release().with_pods({"node": {**release().gang.pod, "containers": [container]}})
    findings = nodes.check_hosts(chosen, snapshot(chosen, hosted(*hosts)))
    assert [(each.level.value, each.id) for each in findings] == found


def test_without_a_gpu_model_nothing_is_checked() -> None:
    pod = {**release().gang.pod, "containers": [{"env": []}]}
    unknown = release().with_pods({"node": pod})
    assert unknown.jobset.gpu_model == ""
    assert nodes.check_gpu_model(unknown, snapshot(release())) == []
    assert nodes.check_hosts(unknown, snapshot(release())) == []


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
    findings = nodes.check_image_volumes(mounted, snapshot(release(), hosted(*hosts)))
    assert [each.level.value for each in findings] == levels


def test_without_an_image_volume_nothing_is_checked() -> None:
    assert nodes.check_image_volumes(release(), snapshot(release())) == []
