"""Padding of packs, their content, and refusals with gathered tokens."""

from typing import Any

import pytest

from launchers.config import recipe
from launchers.exits import Exit, LaunchError
from launchers.flags import equal_packs, features
from launchers.rules import table
from tests.bench.speed.profiles import Profile

FILES = ("values/a100-2node.yaml", "values/hardware/h200-4.yaml")
DISPATCHER = "moe_token_dispatcher_type"


def parsed(**changes: Any) -> recipe.Recipe:
    """Return the recipe of the 4-GPU profile with gathered tokens and some changes."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    values = Profile(name="case", files=FILES, changes={DISPATCHER: "allgather"} | dotted).values()
    return recipe.parse({k: v for k, v in values["recipe"].items() if k in recipe.KEYS})


def broken(**changes: Any) -> list[tuple[str, str]]:
    """Return id and path of what the launcher refuses of it."""
    found = parsed(**changes)
    context = table.Context.of(found, model_config=None, nodes=1, gpus_per_node=4)
    refusals = table.check(found.args, context)
    return [(each.id, each.path.removeprefix("recipe.args.")) for each in refusals]


ONE_TEXT = {"recipe__task": "sft", "rlhf_type": None}


@pytest.mark.parametrize(
    "changes", [{}, {"micro_batch_size": 2}, {**ONE_TEXT, "packing_length": 8192}]
)
def test_what_fits_is_not_refused(changes: dict[str, Any]) -> None:
    assert [each for each in broken(**changes) if each[0].startswith("gather-")] == []


@pytest.mark.parametrize(
    ("changes", "id", "path"),
    [
        ({"packing_length": None}, "gather-length", DISPATCHER),
        ({"max_length": None}, "gather-length", DISPATCHER),
        ({"streaming": True}, "gather-streaming", DISPATCHER),
        ({"context_parallel_size": 2}, "gather-parallelism", DISPATCHER),
        ({"rlhf_type": "kto"}, "gather-rlhf-type", DISPATCHER),
        ({"mtp_num_layers": 1}, "gather-mtp", DISPATCHER),
        ({"moe_shared_expert_overlap": True}, "gather-shared-expert-overlap", DISPATCHER),
        ({**ONE_TEXT, "packing_length": 8191}, "gather-row-length", "max_length"),
    ],
)
def test_what_does_not_is_refused(changes: dict[str, Any], id: str, path: str) -> None:
    assert (id, path) in broken(**changes)


@pytest.mark.parametrize(
    ("changes", "loads"),
    [({}, True), ({"packing": False}, False), ({DISPATCHER: "alltoall"}, False)],
)
def test_the_feature_is_for_packs_that_are_gathered(changes: dict[str, Any], loads: bool) -> None:
    names = features.names(parsed(**changes), on_cpu=False)
    assert ("equal_packs" in names, "rank_order" in names) == (loads, loads)


def test_a_batch_of_more_than_texts_is_refused() -> None:
    equal_packs.judge({"input_ids": 1, "channel": None}, 5, 8, 8)
    with pytest.raises(LaunchError, match="pixel_values") as refusal:
        equal_packs.judge({"input_ids": 1, "pixel_values": 1}, 5, 8, 8)
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, "gather-batch")


def test_a_pack_that_is_too_long_is_refused() -> None:
    with pytest.raises(LaunchError, match="has 9 tokens instead of 8") as refusal:
        equal_packs.judge({"input_ids": 1}, 9, 16, 8)
    assert refusal.value.code == Exit.DATA
