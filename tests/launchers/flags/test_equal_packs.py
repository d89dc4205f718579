"""When packs are filled up, what one may hold, and what is refused with gathered tokens."""

from __future__ import annotations

from typing import Any

import pytest

from launchers.config import recipe
from launchers.flags import equal_packs, features
from launchers.flags.equal_packs import PacksConfigError, PacksDataError
from launchers.rules import table
from tests.gpu.bench.profiles import Profile

FILES = ("values/a100-2node.yaml", "values/hardware/h200-4.yaml")
DISPATCHER = "moe_token_dispatcher_type"
PLUGIN = "training/packs/equal_packs.py"


def parsed(**changes: Any) -> recipe.Recipe:
    """Return the recipe of the 4-GPU profile with gathered tokens and some changes."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    values = Profile(name="case", files=FILES, changes={DISPATCHER: "allgather"} | dotted).values()
    return recipe.parse({k: v for k, v in values["recipe"].items() if k in recipe.KEYS})


def broken(**changes: Any) -> list[str]:
    """Return what the launcher says of it."""
    found = parsed(**changes)
    gang: dict[str, Any] = {"nodes": 1, "gpus_per_node": 4, "backend": "megatron"}
    given: dict[str, Any] = {"task": found.task, "reference": found.reference}
    return table.check(found.args, shape=None, **gang, **given)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"micro_batch_size": 2},
        {"recipe__task": "sft", "packing_length": 8192, "rlhf_type": None},
    ],
)
def test_what_fits_is_not_refused(changes: dict[str, Any]) -> None:
    said = broken(**changes)
    assert [each for each in said if DISPATCHER in each or "packing_length" in each] == []


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({"packing": False}, f"{DISPATCHER}: allgather takes as many tokens from each rank"),
        ({"packing": None}, f"{DISPATCHER}: allgather takes as many tokens from each rank"),
        ({"packing_length": 16383}, "packing_length: 16383 is less than twice max_length 8192"),
        ({"packing_length": None}, f"{DISPATCHER}: allgather needs packing_length"),
        ({"max_length": None}, f"{DISPATCHER}: allgather needs max_length"),
        ({"streaming": True}, f"{DISPATCHER}: allgather was not tried with streaming"),
        (
            {"pipeline_model_parallel_size": 2},
            f"{DISPATCHER}: allgather was not tried with pipeline_model_parallel_size 2",
        ),
        (
            {"context_parallel_size": 2},
            f"{DISPATCHER}: allgather was not tried with context_parallel_size 2",
        ),
        ({"rlhf_type": "kto"}, f"{DISPATCHER}: allgather was not tried with rlhf_type kto"),
        ({"mtp_num_layers": 1}, f"{DISPATCHER}: allgather was not tried with mtp_num_layers"),
        (
            {"moe_shared_expert_overlap": True},
            f"{DISPATCHER}: allgather does not go with moe_shared_expert_overlap",
        ),
        (
            {"megatron_extra_kwargs": {"overlap_moe_expert_parallel_comm": True}},
            f"{DISPATCHER}: allgather does not go with overlap_moe_expert_parallel_comm",
        ),
    ],
)
def test_what_does_not_is_refused(changes: dict[str, Any], begin: str) -> None:
    assert any(each.startswith(f"recipe.args.{begin}") for each in broken(**changes))


def test_rows_of_one_text_need_no_more_than_their_own_length() -> None:
    said = broken(recipe__task="sft", rlhf_type=None, packing_length=8191)
    assert [each for each in said if "packing_length" in each] == [
        "recipe.args.max_length: 8192 is above packing_length 8191; write at most 8191"
    ]


@pytest.mark.parametrize(
    ("changes", "loads"),
    [({}, True), ({"packing": False}, False), ({DISPATCHER: "alltoall"}, False)],
)
def test_the_plugin_is_for_packs_that_are_gathered(changes: dict[str, Any], loads: bool) -> None:
    [plugin] = [each for each in features.OWN if each.file == PLUGIN]
    assert plugin.loads(parsed(**changes), on_cpu=False) is loads


def test_a_batch_of_more_than_texts_is_refused() -> None:
    equal_packs.judge({"input_ids": 1, "channel": None}, 5, 8, 8)
    with pytest.raises(PacksConfigError, match="a batch that holds pixel_values"):
        equal_packs.judge({"input_ids": 1, "pixel_values": 1}, 5, 8, 8)


def test_a_pack_that_is_too_long_is_refused() -> None:
    with pytest.raises(PacksDataError, match="has 9 tokens and the others 8"):
        equal_packs.judge({"input_ids": 1}, 9, 16, 8)
