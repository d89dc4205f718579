"""ms-swift's own packing and sampler with ours, for real in the training Python, on CPU."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit
from launchers.system.failures import verdict
from scripts.plan.inputs import known_models
from tests.launchers import warm
from tests.launchers.training.packs.packing_probe import LAYOUTS, LENGTHS
from tests.launchers.training_environment import PINNED, STACK, needs_training

pytestmark = needs_training
has_figures = pytest.mark.skipif(STACK != PINNED, reason="ms-swift packs as the pinned one does")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    config: Path = tmp_path_factory.mktemp("model") / "config.json"
    config.write_text(json.dumps(known_models()["Qwen3-30B-A3B"]))
    options = ["--without-figures"] if STACK != PINNED else []
    said = warm.printed("-m", "tests.launchers.training.packs.packing_probe", config, *options)
    document: dict[str, Any] = json.loads(said[said.index("{\n") :])
    refusal = next(line for line in said.splitlines() if line.startswith("REFUSAL "))
    return document | {"refusal": "".join(json.loads(refusal.removeprefix("REFUSAL ")))}


def test_a_step_has_the_packs_of_ms_swift_and_a_resumed_run_continues(
    found: dict[str, Any],
) -> None:
    assert found["faults"] == []


def test_loaders_of_packs_in_random_order_are_ours(found: dict[str, Any]) -> None:
    assert found["edges"] == []


def test_ranks_that_see_other_rows_end_as_an_error_of_the_data(found: dict[str, Any]) -> None:
    assert "ranks [1] have other rows or packs than rank 0" in found["refusal"]
    reported = verdict(found["refusal"], started=False)
    assert reported is not None and reported.code == Exit.DATA


@has_figures
@pytest.mark.parametrize("name", ["lognormal", "heavy"])
def test_packs_are_full_and_replicas_even(found: dict[str, Any], name: str) -> None:
    for length in LENGTHS:
        for replicas, batch in LAYOUTS:
            seen = found["figures"][f"{name} {length} dp{replicas} gbs{batch}"]
            assert seen["real"] >= 0.98
            assert seen["token_imbalance"] <= 0.03
            assert seen["cost_imbalance"] <= 0.03 < seen["undealt"]
            assert seen["too_long"] == 0
            assert seen["lost_each_epoch"] < replicas


@has_figures
def test_pairs_longer_than_a_pack_need_a_longer_pack(found: dict[str, Any]) -> None:
    short, long = (found["figures"][f"long {n} dp4 gbs32"] for n in (8192, 16384))
    assert short["too_long"] > 0 == long["too_long"]
    assert long["cost_imbalance"] < 0.03 < short["cost_imbalance"]
