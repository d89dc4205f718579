"""The GPU that the values name, against the nodes' labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launchers.cards import CARDS
from scripts.doctor.card import PRODUCT, check, wanted
from scripts.doctor.release import PodSet
from tests.scripts.doctor.world import node, objects, release, seen

SMI = ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe")
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
    there = [item for item in objects() if item["kind"] != "Node"]
    for number, product in enumerate(products):
        host = node(f"host-{number}")
        del host["metadata"]["labels"][PRODUCT]
        host["metadata"]["labels"] |= {PRODUCT: product} if product else {}
        there.append(host)
    assert [each.level.value for each in check(release(), seen(release(), there), SMI)] == levels


def test_without_a_model_nothing_is_said() -> None:
    assert check(release(), seen(release()), ()) == []


def test_the_model_is_read_from_the_gang_s_environment() -> None:
    assert wanted(release()) == CARDS["a100-80g"].smi
    assert "NVIDIA A100-SXM4-80GB" in wanted(release())
    gang = PodSet(name="node", count=2, template={"spec": {"containers": [{"env": []}]}})
    assert wanted(replace(release(), pod_sets=(gang,))) == ()
