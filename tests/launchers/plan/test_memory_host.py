"""Host memory of a node."""

from __future__ import annotations

from typing import Any

import pytest

from launchers.plan.layout import Layout
from launchers.plan.memory import PROCESS, SHARD_FILE, Host, host
from launchers.plan.parameters import IN_PEFT, shards, whole
from launchers.plan.training_job import Training
from tests.launchers.models import load_model_config

MOE = load_model_config("Qwen3-30B-A3B")
EIGHT = Layout(nodes=1, gpus_per_node=8, ep=8)


def node(layout: Layout = EIGHT, **fields: Any) -> tuple[Host, Training]:
    training = Training(layout=layout, **fields)
    return host(MOE, training, list(shards(MOE, layout, head=True))), training


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_a_save_copies_weights_and_optimizer_once_however_experts_are_spread(ep: int) -> None:
    found, _ = node(Layout(nodes=1, gpus_per_node=8, ep=ep))
    assert found.save == pytest.approx(14 * MOE.parameters)
    assert found.total == 8 * PROCESS + found.save


def test_a_save_of_an_adapter_copies_the_adapter_alone() -> None:
    found, training = node(tuner="lora", lora_rank=64)
    assert found.save == pytest.approx(14 * whole(MOE, training))
    assert found.save < 0.1 * node()[0].save


def test_a_merged_model_passes_a_file_at_a_time_and_an_adapter_is_one_file() -> None:
    file = SHARD_FILE + 2 * MOE.embedding_parameters
    given: dict[str, Any] = {"tuner": "lora", "saves_optimizer": False}
    for merges in ("last", "every"):
        assert node(merges=merges, **given)[0].save == file
    found, training = node(merges="never", **given)
    assert found.save == 2 * whole(MOE, training, IN_PEFT) < file
    large, training = node(merges="last", lora_rank=128, **given)
    assert large.save == 2 * whole(MOE, training, IN_PEFT) > file
