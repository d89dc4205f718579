"""Memory of a node beside its GPUs."""

from __future__ import annotations

import pytest

from launchers.layout import Layout
from launchers.memory_host import PROCESS, Host, host
from launchers.memory_shard import shards
from launchers.training import Training
from tests.launchers.models import shape_of

MOE = shape_of("Qwen3-30B-A3B")


def node(layout: Layout) -> Host:
    return host(MOE, Training(layout=layout), list(shards(MOE, layout, head=True)))


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_a_save_copies_weights_and_optimizer_once_however_experts_are_spread(ep: int) -> None:
    found = node(Layout(nodes=1, gpus_per_node=8, ep=ep))
    assert found.save == pytest.approx(14 * MOE.parameters)
    assert found.total == 8 * PROCESS + found.save
