"""The judge of runs with and without overlap, on what runs leave."""

from __future__ import annotations

from typing import Any

import pytest

from launchers.flags import features
from tests.gpu import overlap
from tests.gpu.bench import profiles as bench_profiles

LOSSES = [0.6931, 0.6929, 0.6925, 0.6921, 0.6917]


def run(losses: list[float], norms: list[float], seconds: float) -> dict[str, Any]:
    log = {"loss": losses, "grad_norm": norms}
    return {"log": log, "steps": 12, "seconds": {"median": seconds}, "reserved_gib": 50.0}


def test_equal_runs_are_the_same() -> None:
    verdict = overlap.compare(run(LOSSES, [2.0] * 5, 1.5), run(LOSSES, [2.01] * 5, 1.2))
    assert verdict["same"]
    assert verdict["faster"] == 1.25


@pytest.mark.parametrize(
    ("losses", "norms"),
    [
        ([0.6932, *LOSSES[1:]], [2.0] * 5),  # the forward pass differs
        ([*LOSSES[:4], 0.71], [2.0] * 5),
        (LOSSES, [2.0, 2.1, 2.0, 2.0, 2.0]),  # a gradient is lost
        (LOSSES[:3], [2.0] * 3),  # it died
        ([], []),
    ],
)
def test_others_are_not(losses: list[float], norms: list[float]) -> None:
    assert not overlap.compare(run(LOSSES, [2.0] * 5, 1.5), run(losses, norms, 1.2))["same"]


def test_a_run_that_was_skipped_is_not_the_same() -> None:
    verdict = overlap.compare(run(LOSSES, [2.0] * 5, 1.5), {"skipped": "no time left"})
    assert not verdict["same"]
    assert "faster" not in verdict


def test_profiles_differ_by_the_switch_and_load_its_plugin() -> None:
    chosen = overlap.profiles(2, delayed=True)
    recipes = {
        name: bench_profiles.recipe(bench_profiles.parse(text).values(), {})
        for name, text in chosen.items()
    }
    extra: dict[str, Any] = {
        name: recipe.args["megatron_extra_kwargs"] for name, recipe in recipes.items()
    }
    assert extra["on"] == {**extra["off"], "overlap_moe_expert_parallel_comm": True}
    assert extra["delayed"] == {**extra["on"], "delay_wgrad_compute": True}
    loaded = {
        name: [p.file for p in features.OWN if p.loads(recipe, on_cpu=False)]
        for name, recipe in recipes.items()
    }
    assert set(loaded["on"]) - set(loaded["off"]) == {"swift_overlap.py"}
    assert loaded["on"].index("swift_overlap.py") > loaded["on"].index("swift_reference.py")
