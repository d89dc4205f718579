"""What a run has used, and the warning before its budget ends it."""

from typing import Any

import pytest

from scripts.observe import spent
from scripts.prices import NONE, Prices

PLAN = {
    "gang": {"nodes": 2, "gpus_per_node": 8, "card": "h200"},
    "recipe": {"args": {"num_train_epochs": "2"}},
}
TIMES = {"eta_seconds": 500.0, "step_seconds": 10.0, "evaluation_seconds": 60.0, "kwh": 1.5}
TIMES |= {"trained_seconds": 500.0, "lost_seconds": 40.0}
TRAINING: dict[str, Any] = {"step": 50, "total": 100, **TIMES}
TRAINING["rows"] = {"rows_kept": 800}
PROGRESS = {"state": "running", "held_seconds": 900.0, "training": TRAINING}
PRICES = Prices(currency="EUR", gpu_hour={"h200": 3.0})


def test_the_purposes_sum_up_to_what_is_held() -> None:
    found = spent.spent(PROGRESS, PLAN)
    assert found is not None
    assert found.held == 16 * 900 / 3600 == pytest.approx(4.0)
    parts = (found.trained, found.evaluation, found.lost, found.waiting)
    assert sum(parts) == pytest.approx(found.held)
    assert (found.epoch, found.thousand_pairs) == (4.0, 5.0)  # one epoch of two, 800 pairs
    document = spent.document(found, PRICES, "h200")
    assert document is not None
    assert (document["amount"]["held"], document["currency"]) == (12.0, "EUR")
    assert document["gpu_hours"]["waiting"] == pytest.approx(16 * 300 / 3600)
    unpriced = spent.document(found, NONE, "h200")
    assert unpriced is not None and unpriced["amount"] is None is unpriced["currency"]
    assert spent.text(found, NONE, "h200").startswith("4.0 GPU-hours (evaluation 0.3 GPU-hours")


@pytest.mark.parametrize(
    "progress", [{}, {**PROGRESS, "held_seconds": "x"}, {**PROGRESS, "held_seconds": None}]
)
def test_what_is_not_known_is_left_out(progress: dict[str, Any]) -> None:
    assert spent.spent(progress, PLAN) is None
    assert spent.spent(PROGRESS, {}) is None
    assert spent.document(None, PRICES, "h200") is None


def test_a_budget_that_ends_the_run_early_is_said_while_it_trains() -> None:
    def said(now: float = 0.0, state: str = "running", **env: str) -> str:
        return spent.warning(env, {**PROGRESS, "state": state}, 16, now)

    assert said() == ""
    assert said(DPO_BUDGET_GPU_MINUTES="373") != ""  # 1,398.75 s in all, 498.75 s are left
    assert said(DPO_BUDGET_GPU_MINUTES="400") == ""
    short = said(DPO_BUDGET_GPU_MINUTES="320")  # 1,200 s in all, 300 s are left
    assert short.startswith("budget.gpuMinutes ends the run in 5 min, at about step 80 of 100")
    by = said(1795000000.0 - 200, DPO_BUDGET_BY="2026-11-18T11:06:40Z")
    assert by.startswith("budget.by ends the run in 3 min, at about step 70 of 100")
    assert said(state="succeeded", DPO_BUDGET_GPU_MINUTES="320") == ""
    assert said(DPO_BUDGET_GPU_MINUTES="none") == ""
