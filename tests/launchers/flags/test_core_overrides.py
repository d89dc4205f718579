"""Overrides of megatron-core's configuration in a recipe must be a map of typed values."""

from typing import Any

import pytest

from launchers.rules import table

FLAG = "megatron_extra_kwargs"


def refused(value: Any) -> list[tuple[str, str]]:
    one = table.Context(model_config=None, nodes=1, gpus_per_node=1, backend="megatron")
    found = table.check({FLAG: value, "train_iters": "1"}, one)
    return [(each.id, each.path) for each in found]


def test_a_switch_that_is_one_passes() -> None:
    assert refused({"moe_router_fusion": True}) == []


@pytest.mark.parametrize("text", ["{moe_router_fusion: true}", "{'a': 1}", "[1]", "/data/a.json"])
def test_what_ms_swift_would_repair_or_read_from_a_file_is_refused(text: str) -> None:
    assert refused(text) == [("overrides-map", f"recipe.args.{FLAG}")]
