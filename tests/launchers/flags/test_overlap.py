"""When the experts' all-to-all is overlapped, and what is refused with it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from launchers.config import recipe
from launchers.flags import features, overlap
from launchers.flags.overlap import NAME, SWITCH
from launchers.rules import table
from tests.gpu.bench.profiles import Profile

FILES = ("values/a100-2node.yaml", "values/hardware/h200-4.yaml")
FITTING: dict[str, Any] = {
    "rpo_alpha": None,
    "recompute_granularity": "none",
    "recompute_method": None,
    "recompute_num_layers": None,
    f"recipe.args.{SWITCH}": True,
}


def broken(**changes: Any) -> list[str]:
    """Return what the launcher says of the 4-GPU profile with the switch and some changes."""
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    values = Profile(name="case", files=FILES, changes=FITTING | dotted).values()
    parsed = recipe.parse({k: v for k, v in values["recipe"].items() if k in recipe.KEYS})
    said = table.check(
        parsed.args,
        shape=None,
        nodes=1,
        gpus_per_node=4,
        backend="megatron",
        reference=parsed.reference,
    )
    return [
        message.removeprefix(f"recipe.args.{SWITCH}: ") for message in said if SWITCH in message
    ]


def test_what_fits_is_not_refused() -> None:
    assert broken() == []
    assert broken(recompute_granularity="selective", recompute_modules=["moe_act"]) == []


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({"recipe__reference": "online"}, "needs recipe.reference precomputed"),
        ({"recompute_granularity": "full"}, "does not go with recompute_granularity full"),
        ({"recompute_num_layers": 4}, "does not go with recompute_num_layers 4"),
        ({"recompute_modules": ["core_attn", "moe"]}, "does not go with recompute_modules moe"),
        ({"expert_model_parallel_size": 1}, "needs expert_model_parallel_size of 2 or more"),
        ({"pipeline_model_parallel_size": 2}, "needs pipeline_model_parallel_size 1"),
        ({"packing": False, "padding_free": False}, "needs padding_free"),
    ],
)
def test_what_does_not_is_refused(changes: dict[str, Any], begin: str) -> None:
    [message] = broken(**changes)
    assert message.startswith(begin)


@pytest.mark.parametrize("value", [False, None, 0, "", True, 1, "true", "false"])
def test_a_switch_is_on_where_megatron_core_takes_it_for_on(value: Any) -> None:
    assert overlap.switched({NAME: value}) == bool(value)
    assert overlap.switched(json.dumps({NAME: value})) == bool(value)


def test_a_switch_that_is_a_text_is_refused_by_its_name() -> None:
    [text] = broken(**{f"recipe__args__{SWITCH}": "true"})
    assert text.startswith('"true" is a text') and "without quotes" in text


@pytest.mark.parametrize("text", ["{moe_router_fusion: true}", "{'a': 1}", "[1]", "/data/a.json"])
def test_what_ms_swift_would_repair_or_read_from_a_file_is_refused(text: str) -> None:
    gang: dict[str, Any] = {"shape": None, "nodes": 1, "gpus_per_node": 1, "backend": "megatron"}
    told = table.check({"megatron_extra_kwargs": text, "train_iters": "1"}, **gang)
    write = "is no map; write key: value lines below it, or a JSON object"
    assert told == [f'recipe.args.megatron_extra_kwargs: "{text}" {write}']


def test_a_run_without_a_launcher_is_refused_too() -> None:
    fits = SimpleNamespace(padding_free=True, mtp_num_layers=None)
    assert overlap.refusals(fits, precomputed=True) == []
    other = SimpleNamespace(padding_free=False, mtp_num_layers=1)
    assert len(overlap.refusals(other, precomputed=False)) == 3


def test_the_plugin_builds_on_the_trainer_with_a_precomputed_reference() -> None:
    files = [plugin.file for plugin in features.OWN]
    assert files.index("training/overlap.py") > files.index("training/reference/reference.py")
