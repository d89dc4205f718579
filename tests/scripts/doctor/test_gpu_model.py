"""The GPU that the values name, against the nodes' labels."""

import pytest

from scripts.doctor.nodes import GPU_PRODUCT, check_gpu_model
from tests.scripts.doctor.healthy import node, release, snapshot
from tests.scripts.doctor.plant import hosted

A100 = "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("products", "levels"),
    [
        ((A100, A100), ["ok"]),
        ((A100, f"{A100}-SHARED"), ["ok"]),
        ((A100, "NVIDIA-H200"), ["warn"]),
        (("NVIDIA-H200", "NVIDIA-H200"), ["fail"]),
        ((None, None), ["warn"]),
    ],
)
def test_the_product_label(products: tuple[str | None, ...], levels: list[str]) -> None:
    hosts = [node(f"host-{number}") for number, _ in enumerate(products)]
    for host, product in zip(hosts, products, strict=True):
        del host["metadata"]["labels"][GPU_PRODUCT]
        host["metadata"]["labels"] |= {GPU_PRODUCT: product} if product else {}
    findings = check_gpu_model(release(), snapshot(release(), hosted(*hosts)))
    assert [each.level.value for each in findings] == levels


def test_without_a_model_nothing_is_checked() -> None:
    pod = {**release().gang.pod, "containers": [{"env": []}]}
    unknown = release().with_pods({"node": pod})
    assert unknown.jobset.gpu_model == ""
    assert check_gpu_model(unknown, snapshot(release())) == []
