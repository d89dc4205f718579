from dataclasses import replace
from typing import Any

import pytest

from launchers import PACKAGE
from launchers.plan.layout import Layout
from launchers.plan.memory import BUFFER_SPARE, PROCESS, SHARD_FILE, SHARD_FILES, Host, host
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import IN_PEFT, shards, whole
from launchers.plan.training_job import Training
from tests.launchers.models import load_model_config

MOE = load_model_config("Qwen3-30B-A3B")
EIGHT = Layout(nodes=1, gpus_per_node=8, ep=8)


def node(layout: Layout = EIGHT, model: ModelConfig = MOE, **fields: Any) -> tuple[Host, Training]:
    training = Training(layout=layout, **fields)
    return host(model, training, list(shards(model, layout, head=True))), training


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_a_save_copies_weights_and_optimizer_once_however_experts_are_spread(ep: int) -> None:
    found, _ = node(Layout(nodes=1, gpus_per_node=8, ep=ep))
    assert found.save == pytest.approx(14 * BUFFER_SPARE * MOE.parameters)
    assert found.at_save == 8 * PROCESS + found.save


def test_a_save_copies_eight_bytes_of_each_parameter_with_short_state() -> None:
    found, _ = node(precision_aware=True, exp_avg_dtype="bf16", exp_avg_sq_dtype="bf16")
    assert found.save == pytest.approx(8 * BUFFER_SPARE * MOE.parameters)


def test_the_copy_of_a_save_stays_while_rank_0_gathers_safetensors() -> None:
    found, none = node()[0], node(saves_optimizer=False)[0]
    assert found.total == found.at_save + found.gathered
    assert none.save == 0 and none.gathered == found.gathered > 0


def test_a_save_that_blocks_copies_what_is_on_the_gpu_without_the_spare_part() -> None:
    half: dict[str, Any] = {"optimizer_offload": 0.5}
    assert node(**half)[0].save == node()[0].save
    assert node(in_background=False)[0].save == pytest.approx(14 * MOE.parameters)
    blocking = node(in_background=False, **half)[0].save
    assert blocking == pytest.approx((12 / 2 + 2) * MOE.parameters)


def test_a_small_model_is_gathered_as_one_file() -> None:
    small = replace(MOE, layers=2)
    assert node(model=small)[0].gathered == 2 * small.parameters < SHARD_FILE


def test_a_save_of_an_adapter_copies_the_adapter_alone() -> None:
    found, training = node(tuner="lora", lora_rank=64)
    assert found.save == pytest.approx(14 * BUFFER_SPARE * whole(MOE, training))
    assert found.save < 0.1 * node()[0].save


def test_a_merged_model_is_in_memory_by_the_files_being_written_and_an_adapter_is_one() -> None:
    writers = (PACKAGE / "training" / "saving" / "shard_writes.py").read_text(encoding="utf-8")
    assert f"\nWRITERS = {SHARD_FILES - 1}\n" in writers  # its module needs torch
    file = SHARD_FILES * SHARD_FILE + 2 * MOE.embedding_parameters
    given: dict[str, Any] = {"tuner": "lora", "saves_optimizer": False}
    for merges in ("last", "every"):
        assert node(merges=merges, **given)[0].gathered == file
    found, training = node(merges="never", **given)
    assert found.gathered == 2 * whole(MOE, training, IN_PEFT) < file
    large, training = node(merges="last", lora_rank=512, **given)
    assert large.gathered == 2 * whole(MOE, training, IN_PEFT) > file
