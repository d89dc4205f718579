"""Predicted time: the arithmetic of traffic, and the direction of everything else."""

import math
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.config.gpu_models import GPU_MODELS
from launchers.plan import memory, traffic
from launchers.plan.layout import Layout
from launchers.plan.parameters import Shard, shards
from launchers.plan.run_length import PACKED, Duration, of_steps, once, per_step, steps
from launchers.plan.step_time import (
    MEETING,
    NVLINK,
    PACE,
    PRODUCTS,
    Link,
    Speed,
    adapter_bytes_moved,
    adapter_weights,
    predict,
)
from launchers.plan.training_job import Training
from tests.launchers.models import load_model_config

QWEN = load_model_config("Qwen3-30B-A3B")
ONE = Layout(nodes=1, gpus_per_node=1)
IB, TCP = Link(name="ib", gbs=180), Link(name="tcp", gbs=2.5)
FULL = {"recompute": "full", "packing": True, "max_length": 8192}


def job(layout: Layout, **fields: Any) -> Training:
    base = Training(layout=layout, global_batch_size=128, **FULL)  # type: ignore[arg-type]
    return replace(base, sequence_parallel=layout.tp > 1, **fields)


def first(layout: Layout) -> Shard:
    return next(shards(QWEN, layout, head=True))


def test_a_pack_sends_90_gb_in_a_node_51_over_two_and_67_mb_each_way_between_stages() -> None:
    near, far = (sent_by(Layout(nodes=n, gpus_per_node=8, ep=8 * n)) for n in (1, 2))
    assert near.inside / 1e9 == pytest.approx(90, rel=0.01) and near.across == 0
    assert far.across / 8 / 1e9 == pytest.approx(51.5, rel=0.01)  # of each GPU
    staged = Layout(nodes=2, gpus_per_node=8, pp=2, ep=8)
    sent = traffic.pipeline(QWEN, job(staged), 8192).across / 8
    assert sent / 1e6 == pytest.approx(67 + 33.5, rel=0.01)  # the reference has no way back


def sent_by(layout: Layout) -> traffic.Traffic:
    """Return what packs of 8 ranks with 8192 tokens each send between experts."""
    return traffic.experts(QWEN, job(layout), first(layout), 8192 * 8)


@pytest.mark.parametrize(
    ("ep", "sent", "gathered"), [(2, 268.4, 67.1), (4, 402.7, 201.3), (8, 469.8, 469.8)]
)
def test_gathered_tokens_are_sent_once(ep: int, sent: float, gathered: float) -> None:
    layout, pack = Layout(nodes=1, gpus_per_node=ep, ep=ep), 16384
    training = job(layout, compares=False, recompute="none")
    each = 4 * first(layout).moe_layers * 1e6  # there and back, forward and backward
    plain = traffic.experts(QWEN, training, first(layout), pack * 8)
    once = traffic.experts(QWEN, replace(training, dispatcher="allgather"), first(layout), pack * 8)
    assert plain.inside / each == pytest.approx(sent, rel=0.001)
    rest = (5 + 4) * 128 * pack * (ep - 1) * first(layout).moe_layers  # probabilities and map
    assert (once.inside - rest) / each == pytest.approx(gathered, rel=0.001)


def test_nodes_of_one_nvlink_domain_send_nothing_across() -> None:
    plain = Layout(nodes=4, gpus_per_node=4, ep=8, pp=2)
    joined = replace(plain, nvlink=72)
    apart, inside = sent_by(plain), sent_by(joined)
    assert apart.across > 0 and inside.across == 0 and inside.inside > apart.inside
    assert traffic.pipeline(QWEN, job(joined), 8192).across == 0


def test_what_leaves_a_domain_is_shared_by_its_nodes() -> None:
    wide = Layout(nodes=32, gpus_per_node=4, ep=128)
    plain, joined = sent_by(wide), sent_by(replace(wide, nvlink=64))
    assert joined.across == pytest.approx(plain.across * 64 / 124)


def test_gradients_of_two_nodes() -> None:
    layout = Layout(nodes=2, gpus_per_node=8, ep=8)
    moe = first(layout).experts
    both = traffic.gradients(job(layout), 0.0, moe).across
    assert both / 1e9 == pytest.approx(58 + 29, rel=0.01)  # fp32 gradients, bf16 weights


def test_sizes_of_one_send_nothing() -> None:
    layout = Layout(nodes=1, gpus_per_node=1)
    step = predict(QWEN, job(layout), GPU_MODELS["h200"], IB, 1024)
    assert step.communication == {"nvlink": 0.0, "ib": 0.0}
    assert step.bubble_seconds == 0


@given(
    nodes=st.sampled_from([1, 2, 4]),
    tp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2]),
    ep=st.sampled_from([1, 4, 8]),
    gpu_model=st.sampled_from(sorted(GPU_MODELS)),
)
def test_the_parts_make_the_step(nodes: int, tp: int, pp: int, ep: int, gpu_model: str) -> None:
    layout = Layout(nodes=nodes * pp, gpus_per_node=8, tp=tp, pp=pp, ep=ep)
    step = predict(QWEN, job(layout), GPU_MODELS[gpu_model], IB, 2048)
    waits = sum(step.communication.values())
    known = step.compute_seconds + step.bubble_seconds + step.optimizer_seconds + waits
    assert step.step_seconds == pytest.approx(known)
    assert step.low < step.step_seconds < step.high
    assert 0 < step.mfu < 0.815
    assert step.tokens_per_step == pytest.approx(128 * 8192)


def test_a_slow_network_hurts_experts_more_than_a_pipeline() -> None:
    across = Layout(nodes=2, gpus_per_node=8, ep=16)
    staged = Layout(nodes=2, gpus_per_node=8, pp=2, ep=8)

    def slowdown(layout: Layout) -> float:
        tcp, ib = (predict(QWEN, job(layout), GPU_MODELS["a100-80g"], x, 1024) for x in (TCP, IB))
        return tcp.step_seconds / ib.step_seconds

    assert slowdown(across) > 5 and slowdown(staged) < 1.5


def test_offload_recompute_and_small_batches_cost_time() -> None:
    layout = Layout(nodes=1, gpus_per_node=8, ep=8)

    def rate(**fields: Any) -> float:
        made = job(layout, **fields)
        return predict(QWEN, made, GPU_MODELS["h200"], IB, 1024).tokens_per_second_per_gpu

    assert rate(precision_aware=True, optimizer_offload=1.0, global_batch_size=8) < rate() / 4
    assert rate(recompute="selective") > 1.1 * rate()
    assert rate(compares=False, reference=False) > 1.1 * rate()
    staged = job(Layout(nodes=1, gpus_per_node=8, ep=4, pp=2), global_batch_size=8)
    step = predict(QWEN, staged, GPU_MODELS["h200"], IB, 1024)
    working = step.compute_seconds + sum(step.communication.values())
    assert step.bubble_seconds == pytest.approx(working / 2, rel=0.05)  # of two microbatches


def test_ranking_thousands_of_layouts_takes_less_than_two_seconds() -> None:
    training = job(Layout(nodes=2, gpus_per_node=8, tp=2, pp=2, ep=4))
    begin = time.process_time()
    for _ in range(3000):
        memory.predict(QWEN, training)
        predict(QWEN, training, GPU_MODELS["h200"], IB, 1024)
    assert time.process_time() - begin < 2


def duration(training: Training, speed: Speed, samples: int, epochs: float = 1.0) -> Duration:
    """Return the time of training on texts of 1024 tokens."""
    count = steps(training, samples=samples, tokens=1024, epochs=epochs)
    before = once(QWEN, training, speed, samples=samples, tokens=1024)
    return of_steps(training, speed, count, before)


BLOCK = {"recompute": "full", "recompute_method": "block", "recompute_num_layers": 12}


@pytest.mark.parametrize(
    ("recompute", "passes"), [({"recompute": "full"}, 4), ({"recompute": "none"}, 3), (BLOCK, 3.25)]
)
def test_a_reference_taken_once_costs_one_pass_and_pays_from_the_second_epoch(
    recompute: dict[str, Any], passes: float
) -> None:
    online = replace(job(Layout(nodes=1, gpus_per_node=4, ep=4)), **recompute)
    first = replace(online, reference=False, compares=False, precomputed=True)
    gpu = GPU_MODELS["h200"]
    paced = {t.precomputed: predict(QWEN, t, gpu, IB, 1024) for t in (online, first)}
    whole, every = (paced[way].step_seconds - paced[way].optimizer_seconds for way in (True, False))
    assert whole / every == pytest.approx(passes / (passes + 1), rel=0.01)

    def hours(epochs: int) -> tuple[float, float]:
        runs = [duration(t, paced[t.precomputed], 100_000, epochs) for t in (online, first)]
        assert runs[0].reference_hours == 0 < runs[1].reference_hours
        return runs[0].hours, runs[1].hours

    packs = 100_000 / per_step(first, 1024.0)
    paid = duration(first, paced[True], 100_000).reference_hours
    assert paid * 3600 == pytest.approx(packs * whole / passes)
    one, two = hours(1), hours(2)
    assert one[1] == pytest.approx(one[0], rel=0.05)
    assert two[1] < 0.97 * two[0]


def waited(packing_length: int, **fields: Any) -> tuple[float, float]:
    """Return seconds of a step on 2 GPUs, and by a host that takes no time."""
    training = job(Layout(nodes=1, gpus_per_node=2, ep=2), packing_length=packing_length, **fields)
    steps = [
        predict(QWEN, training, GPU_MODELS["h200"], IB, 1024, pace=pace)
        for pace in (PACE, replace(PACE, host=0.0, idle=0.0))
    ]
    return steps[0].step_seconds, steps[1].step_seconds


def test_the_host_costs_time_only_where_it_is_slower_than_the_gpu() -> None:
    short, alone = waited(4096)
    assert short > 1.5 * alone
    passes = 128 / 2 * 48 * 5  # packs of a rank, layers, forward passes
    assert short - alone < PACE.host * passes < short
    long, alone = waited(32768)
    assert long == alone


def test_gaps_and_other_gpus_add_their_time_to_each_pass() -> None:
    training = job(Layout(nodes=1, gpus_per_node=2, ep=2), packing_length=16384, compares=False)
    pace = replace(PACE, host=0.0)
    whole, quick = (
        predict(QWEN, training, GPU_MODELS["h200"], IB, 1024, pace=each)
        for each in (pace, replace(pace, gap=0.0))
    )
    passes = 128 / 2 * 48 * (2 + 2)  # forward, recomputed; backward counts twice
    assert whole.compute_seconds - quick.compute_seconds == pytest.approx(PACE.gap * passes)
    sent = traffic.experts(QWEN, training, first(training.layout), 16384 * 8)
    moved = 128 / 2 * sent.inside / (GPU_MODELS["h200"].nvlink_gbs * NVLINK * 1e9)
    assert whole.communication["nvlink"] - moved > MEETING * passes  # and gradients
    assert whole.communication["nvlink"] - moved < 1.2 * MEETING * passes


def test_the_head_computes_labelled_tokens_alone() -> None:
    training = job(ONE, packing_length=16384, compares=False, cross_entropy_impl="te")
    few, many = (
        predict(QWEN, replace(training, labelled=share), GPU_MODELS["h200"], IB, 1024)
        for share in (0.25, 0.75)
    )
    head = 128 * 8192 * 3 * 2 * 2048 * 151936 / (989e12 * PRODUCTS)
    saved = many.compute_seconds - few.compute_seconds
    assert head < saved < 1.3 * head  # logits are read and written, too


ONE_HOST: dict[str, Any] = {"nodes": 1, "gpus_per_node": 4, "ep": 4}


@pytest.mark.parametrize(
    ("layout", "fields", "gpu", "error"),
    [
        ({}, {}, "h200", PACE.near),
        ({}, {"tuner": "lora", "reference": False}, "h100-80g", PACE.near),
        ({"nodes": 2, "gpus_per_node": 2}, {}, "h200", PACE.spread),
        ({"gpus_per_node": 8}, {}, "h200", PACE.spread),
        ({"tp": 2}, {}, "h200", PACE.spread),
        ({}, {"optimizer_offload": 0.5}, "h200", PACE.spread),
        ({}, {"host_waits": True}, "h200", PACE.spread),
        ({}, {}, "a100-80g", PACE.spread),
    ],
)
def test_the_band_is_narrow_where_todays_program_was_measured(
    layout: dict[str, Any], fields: dict[str, Any], gpu: str, error: float
) -> None:
    training = job(Layout(**{**ONE_HOST, **layout}), **fields)
    step = predict(QWEN, training, GPU_MODELS[gpu], IB, 1024)
    assert math.log(step.high / step.step_seconds) == pytest.approx(error)
    assert math.log(step.step_seconds / step.low) == pytest.approx(error)


def test_the_band_of_a_dense_model_is_wide() -> None:
    training = job(Layout(nodes=1, gpus_per_node=4))
    step = predict(load_model_config("Qwen3-4B"), training, GPU_MODELS["h200"], IB, 1024)
    assert math.log(step.high / step.step_seconds) == pytest.approx(PACE.spread)


def test_a_host_that_waits_in_every_layer_adds_its_time_to_the_gpus() -> None:
    long, alone = waited(32768, host_waits=True)
    assert long - alone == pytest.approx(PACE.idle * 128 / 2 * 48 * 5)
    for pack in (1024, 4096, 8192):
        assert waited(pack, host_waits=True)[0] >= waited(pack)[0]


def test_the_time_of_a_data_set() -> None:
    training = job(Layout(nodes=2, gpus_per_node=8, pp=2, ep=8))
    step = predict(QWEN, training, GPU_MODELS["a100-80g"], IB, 1024)
    run = duration(training, step, 40_000, epochs=2)
    assert run.steps == 40_000 * 2 // int(128 * PACKED * 8)
    assert run.gpu_hours == pytest.approx(16 * run.hours)
    assert run.low < run.hours < run.high
    plain = duration(replace(training, packing=False), step, 1280)
    assert plain.steps == 10


def adapting(**fields: Any) -> Training:
    return job(ONE, tuner="lora", reference=False, **fields)


def test_an_adapter_has_two_weights_rest_each_expert() -> None:
    # of each layer two for qkv and proj, and two for each of 128 experts' two products
    expected = 48 * (2 * 2 + 128 * 2 * 2)
    assert adapter_weights(QWEN, adapting(), first(ONE)) == expected
    assert adapter_weights(QWEN, adapting(), first(ONE), stacked=True) == 48 * 4 * 2
    dense = adapting(lora_modules=("linear_qkv", "linear_proj"))
    assert adapter_weights(QWEN, dense, first(ONE)) == 48 * 2 * 2
    assert adapter_weights(QWEN, job(ONE), first(ONE)) == 0


def test_an_adapter_moves_what_its_kernels_read_and_write() -> None:
    moved = adapter_bytes_moved(QWEN, adapting(), first(ONE), 1, 8, 0.0)
    qkv, proj = (2048, 5120), (4096, 2048)
    fc1, fc2 = (8 * 2048, 8 * 1536), (8 * 768, 8 * 2048)
    each = sum(10 * inside + 10 * out for inside, out in (qkv, proj, fc1, fc2))
    assert moved == 48 * each * 2
    twice = adapter_bytes_moved(QWEN, adapting(), first(ONE), 1, 8, 1.0)
    again = sum(3 * inside + 6 * out for inside, out in (qkv, proj, fc1, fc2))
    assert twice - moved == 48 * again * 2


def test_an_adapter_costs_time_in_each_microbatch_and_in_each_step() -> None:
    def seconds(training: Training, gpu: str) -> float:
        return predict(QWEN, training, GPU_MODELS[gpu], IB, 1142).step_seconds

    few, many = (adapting(packing_length=16384, global_batch_size=n) for n in (4, 16))
    # 75 us for each of its weights; a GPU without grouped kernels has one for each expert
    for gpu, weights in ("a100-80g", 24768), ("h200", 384):
        for training in (few, many):
            bare = replace(training, lora_modules=("linear_qkv",))
            assert seconds(training, gpu) > 1.1 * seconds(bare, gpu)
        step = 4 * seconds(few, gpu) - seconds(many, gpu)
        assert step / 3 == pytest.approx(weights * 75e-6, rel=0.05, abs=0.01)
