"""Predicted memory: what is arithmetic is exact, and what is modelled has the right direction."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers import PACKAGE
from launchers.plan import activations
from launchers.plan.layout import Layout
from launchers.plan.memory import (
    BUFFER_SPARE,
    CHUNK,
    FIT,
    PROCESS,
    SHARD_FILE,
    SHARD_FILES,
    STANDBY,
    Host,
    host,
    optimizer_passing,
    predict,
)
from launchers.plan.model_config import ModelConfig
from launchers.plan.parameters import IN_PEFT, shards, whole
from launchers.plan.training_job import Training
from launchers.units import GIB
from tests.launchers.models import load_model_config

MOE, DENSE = load_model_config("Qwen3-30B-A3B"), load_model_config("Qwen3-4B")
ONE = Layout(nodes=1, gpus_per_node=1)


def job(layout: Layout = ONE, **fields: Any) -> Training:
    base = Training(layout=layout, max_length=4096, packing=True, recompute="full")
    return replace(base, sequence_parallel=layout.tp > 1, **fields)


Drawn = tuple[ModelConfig, Training]


@st.composite
def jobs(draw: st.DrawFn) -> Drawn:
    """Layouts that Megatron accepts, of a dense model and one with experts."""
    moe = draw(st.booleans())
    tp, pp = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 3, 4]))
    ep = draw(st.sampled_from([1, 2, 4, 8])) if moe else 1
    nodes = draw(st.sampled_from([1, 2, 4])) * pp
    layout = Layout(nodes=nodes, gpus_per_node=8, tp=tp, pp=pp, ep=ep)
    training = job(
        layout,
        max_length=draw(st.sampled_from([512, 2048, 8192])),
        global_batch_size=layout.dp * draw(st.sampled_from([1, 4, 16])),
        micro_batch_size=1,
        precision_aware=draw(st.booleans()),
        optimizer_offload=draw(st.sampled_from([0.0, 0.5, 1.0])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        reference=draw(st.booleans()),
    )
    return MOE if moe else DENSE, training


AWARE: dict[str, Any] = {"precision_aware": True, "main_grads_dtype": "bf16"}
NARROW = {**AWARE, "exp_avg_dtype": "bf16", "exp_avg_sq_dtype": "fp8"}


@pytest.mark.parametrize(
    ("fields", "dense", "passing"),
    [
        ({"optimizer": "sgd"}, 1, 4 * 3),
        ({}, 1, 0),
        ({"main_grads_dtype": "bf16"}, 1, 4 * 3),
        ({**AWARE, "optimizer_offload": 0.25}, 1, 0.75 * 4 * 3),
        (AWARE, 1, 0),
        ({**AWARE, "exp_avg_dtype": "bf16"}, 1, 4 * 2),
        (NARROW, 1, 8 * 2),
        (NARROW, CHUNK + 1, 8 * CHUNK),
        ({**NARROW, "chunked_step": False}, CHUNK + 1, 8 * (CHUNK + 1)),
    ],
)
def test_the_copies_of_an_optimizer_step(
    fields: dict[str, Any], dense: int, passing: float
) -> None:
    assert optimizer_passing(job(**fields), dense, 2) == passing


def test_one_gpu_holds_two_four_and_twelve_passingof_each_parameter() -> None:
    memory = predict(DENSE, job())
    gib = DENSE.parameters / GIB
    assert memory.weights == memory.reference == 2 * gib
    assert memory.gradients == 4 * gib
    assert memory.optimizer == 12 * gib


@pytest.mark.parametrize("model", [MOE, DENSE], ids=["moe", "dense"])
def test_no_parameter_is_lost_between_ranks(model: ModelConfig) -> None:
    ep = 8 if model.is_moe else 1
    parts = list(shards(model, Layout(nodes=4, gpus_per_node=8, pp=4, ep=ep), head=True))
    held = sum(p.dense + ep * p.experts for p in parts)
    twice = model.embedding_parameters if model.tied else 0  # both end stages have a copy
    assert held == model.parameters + twice


def test_keys_and_values_are_repeated_where_ranks_exceed_their_heads() -> None:
    (part,) = shards(MOE, Layout(nodes=1, gpus_per_node=8, tp=8), head=True)
    per_layer = MOE.norm_parameters + MOE.router_parameters  # every rank holds them whole
    whole = 7 * (MOE.layers * per_layer + MOE.hidden)
    again = MOE.layers * 2 * MOE.hidden * MOE.kv_width  # 8 ranks, 4 heads
    assert 8 * part.dense == MOE.dense_parameters + whole + again


@given(jobs())
def test_the_items_add_up(drawn: tuple[ModelConfig, Training]) -> None:
    memory = predict(*drawn)
    static = memory.weights + memory.gradients + memory.reference + memory.optimizer
    work = memory.activations + memory.logits + memory.buffers
    assert memory.total == pytest.approx(static + work + memory.overhead)
    assert memory.total == pytest.approx(max(memory.per_stage))
    assert len(memory.per_stage) == drawn[1].layout.pp
    assert memory.reserved == pytest.approx(memory.total - FIT.context)


@given(jobs())
def test_more_nodes_never_need_more_on_each_gpu(drawn: tuple[ModelConfig, Training]) -> None:
    model, training = drawn
    more = replace(training.layout, nodes=2 * training.layout.nodes)
    wider = replace(training, layout=more, global_batch_size=2 * training.global_batch_size)
    assert predict(model, wider).total <= predict(model, training).total


@given(jobs())
def test_more_recomputing_keeps_less(drawn: tuple[ModelConfig, Training]) -> None:
    model, training = drawn
    kinds = ("full", "selective", "none")
    kept = [predict(model, replace(training, recompute=kind)).activations for kind in kinds]
    assert kept == sorted(kept)


@given(jobs(), st.sampled_from(["max_length", "micro_batch_size"]))
def test_longer_and_larger_batches_need_more(drawn: Drawn, name: str) -> None:
    model, training = drawn
    larger = replace(training, global_batch_size=2 * training.global_batch_size)
    more = predict(model, replace(larger, **{name: 2 * getattr(training, name)}))
    assert more.total > predict(model, training).total


@given(jobs())
def test_offloading_moves_the_optimizer_to_the_node(drawn: tuple[ModelConfig, Training]) -> None:
    model, training = drawn
    training = replace(training, precision_aware=True)
    parts = [predict(model, replace(training, optimizer_offload=f)) for f in (0.1, 0.5, 1.0)]
    assert parts[0].optimizer > parts[1].optimizer > parts[2].optimizer == 0
    assert parts[0].host < parts[1].host < parts[2].host


@given(jobs())
def test_a_standby_takes_memory_of_the_node_only(drawn: tuple[ModelConfig, Training]) -> None:
    model, training = drawn
    more, less = (predict(model, replace(training, standby=on)) for on in (True, False))
    added = training.layout.gpus_per_node * STANDBY / 2**30
    assert more.host - less.host == pytest.approx(added) and more.total == less.total


def test_offloading_saves_what_nvidia_published() -> None:
    # NVIDIA-NeMo/Megatron-Bridge docs/training/cpu-offloading.md: 15.3 GB for this model
    layout = Layout(nodes=2, gpus_per_node=8, tp=2, pp=2, ep=4)
    kept, none = (predict(MOE, job(layout, optimizer_offload=f)).optimizer for f in (0.0, 1.0))
    assert (kept - none) * GIB / 1e9 == pytest.approx(15.3, rel=0.01)


def test_narrow_moments_save_nothing_until_the_step_is_chunked() -> None:
    types = dict.fromkeys(("exp_avg_dtype", "exp_avg_sq_dtype", "main_grads_dtype"), "bf16")
    narrow = job(Layout(nodes=1, gpus_per_node=4, ep=4), precision_aware=True, **types)
    wide = replace(narrow, exp_avg_dtype="fp32", exp_avg_sq_dtype="fp32")
    whole = predict(MOE, replace(narrow, chunked_step=False))
    assert whole.optimizer > predict(MOE, wide).optimizer * 0.9
    assert predict(MOE, narrow).optimizer < predict(MOE, wide).optimizer * 0.61


def test_the_fullest_stage_counts() -> None:
    even = Layout(nodes=1, gpus_per_node=8, tp=4, pp=2)
    uneven = replace(even, first_layers=30)
    memory = predict(MOE, job(uneven))
    assert memory.per_stage[0] > memory.per_stage[1]
    assert memory.total > predict(MOE, job(even)).total


def test_block_recompute_keeps_the_other_layers() -> None:
    layout = Layout(nodes=1, gpus_per_node=8, tp=8)
    kept = [
        predict(DENSE, job(layout, recompute_method="block", recompute_num_layers=n)).activations
        for n in (36, 18, 1)
    ]
    assert kept == sorted(kept)
    uniform = predict(DENSE, job(layout, recompute_method="uniform")).activations
    assert kept[0] == pytest.approx(uniform)


def test_the_reference_costs_its_weights_and_once_its_gradients() -> None:
    none = predict(DENSE, job(reference=False)).total
    assert predict(DENSE, job()).total - none == pytest.approx(2 * DENSE.parameters / GIB)
    old = predict(DENSE, job(reference_grads=True))
    assert old.total - none == pytest.approx(6 * DENSE.parameters / GIB)


def test_lora_trains_little() -> None:
    lora = predict(MOE, job(tuner="lora", reference=False))
    full = predict(MOE, job(reference=False))
    assert lora.gradients + lora.optimizer < 0.05 * (full.gradients + full.optimizer)
    only = predict(MOE, job(tuner="lora", reference=False, lora_modules=("linear_qkv",)))
    assert only.gradients < 0.01 * lora.gradients


def test_even_routing_and_dropped_tokens_need_less() -> None:
    def buffers(**fields: float) -> float:
        return predict(MOE, job(Layout(nodes=1, gpus_per_node=8, ep=8), **fields)).buffers

    assert buffers(imbalance=1.0) < buffers(imbalance=3.5) / 3
    assert buffers(imbalance=3.5, capacity_factor=1.5) < buffers(imbalance=3.5) / 2


def test_gathered_tokens_need_a_third_less_with_four_ranks_and_nothing_less_with_eight() -> None:
    def buffers(ep: int, dispatcher: str) -> float:
        layout = Layout(nodes=1, gpus_per_node=ep, ep=ep)
        return predict(MOE, job(layout, dispatcher=dispatcher, imbalance=1.0)).buffers

    assert buffers(4, "allgather") == pytest.approx(buffers(4, "alltoall") * 2 / 3)
    assert buffers(8, "allgather") == pytest.approx(buffers(8, "alltoall"))
    for ranks, rows in ((1, 0), (2, 2)):  # that are made again of those of all ranks
        two = job(Layout(nodes=1, gpus_per_node=2, ep=ranks))
        kept, remade = (activations.layer(MOE, two, 1, 1, remade=on) for on in (False, True))
        assert remade - kept == 2 * MOE.hidden * (rows - 1) - 2 * MOE.expert_ffn


def test_scores_of_attention_a_reward_model_and_the_longest_microbatch() -> None:
    plain = predict(DENSE, job())
    assert predict(DENSE, job(attention_backend="unfused")).activations > 2 * plain.activations
    assert predict(DENSE, job(head=False)).logits == 0 < plain.logits
    assert predict(DENSE, job(longest=8192)).total == plain.total  # one long pair
    assert predict(DENSE, job(longest=4096)).logits == plain.logits / 2
    unknown = job(max_length=0, packing=False)
    assert [activations.tokens(replace(unknown, pairs=of), 0) for of in (True, False)] == [2, 1]


EIGHT = Layout(nodes=1, gpus_per_node=8, ep=8)


def node(layout: Layout = EIGHT, model: ModelConfig = MOE, **fields: Any) -> tuple[Host, Training]:
    training = Training(layout=layout, **fields)
    return host(model, training, list(shards(model, layout, head=True))), training


@pytest.mark.parametrize("ep", [1, 2, 8])
def test_a_save_copies_weights_and_optimizer_once_however_experts_are_spread(ep: int) -> None:
    found, _ = node(Layout(nodes=1, gpus_per_node=8, ep=ep))
    assert found.save == pytest.approx(14 * BUFFER_SPARE * MOE.parameters)
    assert found.at_save == 8 * PROCESS + found.save


def test_a_save_copies_eight_passingof_each_parameter_with_short_state() -> None:
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
