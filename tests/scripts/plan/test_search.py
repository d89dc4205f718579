"""The ranking of layouts and the nearest that fit, against looking at all of them."""

import time
from dataclasses import replace
from typing import Any

import pytest

from launchers.plan import memory
from launchers.plan.layout import Layout
from launchers.plan.training_job import parse
from launchers.rules import table
from scripts.plan import candidates, recipe_args
from scripts.plan.candidates import OPTIMIZERS, Fields, Way, recompute
from scripts.plan.search import Search, nearest
from tests.scripts.plan.searches import cluster, everything, seconds

SMALLEST = recompute(1, 1)[-1]


@pytest.mark.parametrize("gpu_model", ["a100-40g", "a100-80g", "h200"])
def test_the_fastest_are_those_of_looking_at_everything(gpu_model: str) -> None:
    search = cluster(2, gpu_model)
    exact: dict[Layout, dict[tuple[str, str, str, int, bool], float]] = {}
    for each in everything(search):  # the most exact optimizer of a way comes first
        training = each.training
        again = (training.recompute, training.recompute_method, training.recompute_num_layers)
        ways = exact.setdefault(training.layout, {})
        ways.setdefault((training.dispatcher, *again, training.offloads), each.speed.step_seconds)
    fastest = {layout: min(ways.values()) for layout, ways in exact.items()}
    assert fastest
    best = search.best(10_000)
    assert seconds(best) == sorted(fastest.values())
    assert len({found.training.layout for found in best}) == len(best)


@pytest.mark.parametrize(
    ("name", "nodes", "gpus"),
    [
        ("Qwen3-30B-A3B", 2, 8),
        ("Qwen3-30B-A3B", 3, 4),
        ("Qwen3-235B-A22B", 4, 8),
        ("DeepSeek-MoE-16B", 1, 6),
        ("Qwen2.5-7B", 2, 7),
        ("Qwen3-0.6B", 1, 1),
    ],
)
def test_every_layout_is_legal(name: str, nodes: int, gpus: int) -> None:
    search = cluster(nodes, name=name, gpus=gpus)
    search = replace(search, training=replace(search.training, global_batch_size=nodes * gpus * 4))
    place: Any = {"model_config": search.model_config, "nodes": nodes, "gpus_per_node": gpus}
    made = search.layouts()
    assert made
    for layout in made:
        wanted = recipe_args.flags(candidates.on(search.training, layout, SMALLEST))
        wanted["global_batch_size"] = str(nodes * gpus * 4)
        merged = recipe_args.merged(search.job.recipe, wanted)
        assert table.check(merged.args, table.Context.of(merged, **place)) == [], layout


@pytest.mark.parametrize("layout", [Layout(nodes=2, gpus_per_node=8, tp=2, pp=2, ep=4)])
@pytest.mark.parametrize("again", recompute(layers=48, stages=2))
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda option: option[0])
def test_flags_written_into_a_recipe_are_read_as_the_same_training(
    layout: Layout, again: Fields, optimizer: tuple[str, Fields]
) -> None:
    search = cluster(2)
    way = Way(layout=layout, dispatcher="alltoall", recompute=(again,))
    training = way.training(search.training, optimizer[1])
    merged = recipe_args.merged(search.job.recipe, recipe_args.flags(training))
    read = parse(merged, nodes=2, gpus_per_node=8)
    plain: dict[str, Any] = {"recompute_modules": ("core_attn",)}
    assert replace(read, **plain) == replace(training, **plain)


def test_changes_alone_are_enough() -> None:
    search = cluster(2)
    for found in search.best(5) + nearest(search, 3):
        merged = recipe_args.merged(search.job.recipe, found.changes)
        read = parse(merged, nodes=2, gpus_per_node=8)
        assert memory.predict(search.model_config, read).total == found.memory.total


def with_flags(search: Search, **flags: str | None) -> Search:
    made = recipe_args.merged(search.job.recipe, flags)
    return replace(search, job=replace(search.job, recipe=made))


def test_mistakes_outside_the_layout_hide_no_layout_and_are_reported() -> None:
    search = cluster(2)
    broken = with_flags(search, num_train_epochs=None)
    assert seconds(broken.best(3)) == seconds(search.best(3))
    assert search.left(search.best(1)[0]) == []
    (message,) = broken.left(broken.best(1)[0])
    assert message.startswith("recipe.args.num_train_epochs: missing")


def test_a_layout_that_another_flag_forbids_is_left_out() -> None:
    """Frozen parameters allow no pipeline."""
    search = cluster(2)
    assert any(found.training.layout.pp > 1 for found in search.best(20))
    only = with_flags(search, freeze_parameters_ratio="0.5").best(20)
    assert {found.training.layout.pp for found in only} == {1}


def test_tokens_are_gathered_where_that_is_faster_and_packs_allow_it() -> None:
    search = replace(cluster(1, "h200", packing_length=16384), host_gib=None)
    ways = {found.training.layout: found.training.dispatcher for found in search.best(1000)}
    spread = {layout: way for layout, way in ways.items() if layout.ep * layout.etp > 1}
    assert {way for layout, way in spread.items() if layout.pp * layout.cp > 1} == {"alltoall"}
    assert ways[Layout(nodes=1, gpus_per_node=8, ep=4)] == "allgather"
    uneven = with_flags(search, packing_length=None).best(1000)
    assert {found.training.layout for found in uneven} == set(ways)
    assert {found.training.dispatcher for found in uneven} == {"alltoall"}


def test_a_recipe_that_gathers_loses_no_layout() -> None:
    search = replace(cluster(1, "h200", packing_length=16384), host_gib=None)
    gathers = with_flags(search, moe_token_dispatcher_type="allgather")
    gathers = replace(gathers, training=replace(search.training, dispatcher="allgather"))
    assert seconds(gathers.best(1000)) == seconds(search.best(1000))


def test_nothing_fits_or_is_proposed_where_the_model_is_too_large() -> None:
    search = cluster(1, "a100-40g", "Qwen3-235B-A22B")
    assert search.best(3) == nearest(search, 3) == []


def test_the_nearest_change_the_fewest_flags() -> None:
    search = cluster(2)
    fewest = sorted(len(each.changes) for each in everything(search))[:3]
    near = nearest(search, 3)
    assert sorted(len(each.changes) for each in near) == fewest
    assert seconds(near) == sorted(seconds(near))


@pytest.mark.parametrize("name", ["Qwen3-30B-A3B", "Qwen3-235B-A22B"])
@pytest.mark.parametrize("gpu_model", ["a100-40g", "h200"])
def test_a_search_over_128_gpus_takes_less_than_five_seconds(name: str, gpu_model: str) -> None:
    search = cluster(16, gpu_model, name)
    search = replace(search, training=replace(search.training, global_batch_size=128))
    begin = time.process_time()
    assert search.best(15)
    assert time.process_time() - begin < 5  # 0.4 to 1.5 on an idle machine
    assert len(search.layouts()) > 1000
