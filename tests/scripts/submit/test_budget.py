"""submit --by and --budget: what is refused, what is chosen, and what Helm gets."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts import prices
from scripts.problem import Problem
from scripts.submit import budget
from scripts.submit.budget import Choice, Limits
from tests.scripts.observe.fixtures import CORE
from tests.scripts.observe.server import Cluster
from tests.scripts.submit.test_submit import REQUEST, Steps, steps, submitted
from tests.scripts.test_documents import CLAIM

__all__ = ["steps"]
NOW = datetime(2026, 11, 26, 18, 30, tzinfo=UTC).timestamp()
TIMES: Any = {"hours": 10.0, "high": 11.0, "step_seconds": 36.0, "steps": 1000}
SLOW = Choice(name="slow", files=[], sets=[], gpus=8, price=1.0, **TIMES)
FAST = replace(SLOW, name="fast", gpus=16, hours=4.0, high=5.0, price=2.0)


@pytest.mark.parametrize(
    ("by", "amount", "id"),
    [
        ("8am", None, "budget-time"),
        ("24:10", None, "budget-time"),
        ("2026-11-26T18:30Z", None, "budget-past"),
        ("2025-01-01", None, "budget-past"),
        (None, "-400", "budget-amount"),
        (None, "0", "budget-amount"),
        (None, "nan", "budget-amount"),
        (None, "400 EUR", "budget-amount"),
    ],
)
def test_a_limit_that_is_none_is_refused(by: str | None, amount: str | None, id: str) -> None:
    with pytest.raises(Problem, match=rf"\[{id}\]"):
        budget.limits(by, amount, NOW)


def test_a_time_of_day_is_the_next_one_by_the_servers_clock() -> None:
    times = (budget.limits(text, None, NOW).by for text in ("08:00", "18:30", "18:31"))
    assert [(each or 0) - NOW for each in times] == [13.5 * 3600, 86400.0, 60.0]


def test_the_cheapest_that_meets_both_limits_is_chosen() -> None:
    both = [FAST, SLOW]
    assert budget.choose(both, Limits(money=200.0), NOW) == (SLOW, [])
    assert budget.choose(both, Limits(by=NOW + 6 * 3600, money=200.0), NOW) == (FAST, [])
    chosen, [warning] = budget.choose(both, Limits(by=NOW + 4.5 * 3600), NOW)
    assert chosen is FAST and warning.startswith("it may be missed: up to 5.0 h are possible")


def test_where_none_meets_the_limits_the_run_that_gets_furthest_is_said() -> None:
    chosen, [warning] = budget.choose([FAST, SLOW], Limits(by=NOW + 3600, money=999.0), NOW)
    assert chosen is FAST and "ends at about step 250 of 1,000" in warning
    assert "allow 4.00 times as much" in warning
    with pytest.raises(Problem, match=r"one step takes 36 s .*\[budget-small\]"):
        budget.choose([SLOW], Limits(money=0.01), NOW)
    with pytest.raises(Problem, match=r"\[budget-no-layout\]"):
        budget.choose([], Limits(money=1.0), NOW)


def test_the_values_of_a_budget_never_pay_for_more_than_it() -> None:
    sets = budget.assignments(replace(SLOW, price=2.3), Limits(by=NOW, money=400.0))
    assert sets == ["budget.gpuMinutes=10434", "budget.by=2026-11-26T18:30:00Z"]
    assert budget.assignments(SLOW, Limits(money=1e308)) == ["budget.gpuMinutes=1000000000"]


@pytest.mark.usefixtures("api")
def test_helm_gets_the_chosen_gang_and_the_budget(
    steps: Steps,  # noqa: F811
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    sets = ["recipe.args.num_train_epochs=null", "recipe.args.train_iters=200"]
    among = [Path(f"values/hardware/{gpu}-8.yaml") for gpu in ("h200", "b200")]
    asked = replace(REQUEST, sets=sets, among=among, budget="400", by="2099-01-01T00:00Z")
    monkeypatch.delenv(prices.FILE, raising=False)
    with pytest.raises(Problem, match=f"--budget needs {prices.FILE}"):
        submitted(asked)
    table = tmp_path / "prices.yaml"
    table.write_text("currency: EUR\ngpuHour: {a100-80g: 1.5, h200: 3}\n")
    monkeypatch.setenv(prices.FILE, str(table))
    _, output = submitted(asked)
    given = steps.arguments.read_text().split("\n")
    assert "values/hardware/h200-8.yaml" in given
    assert {"budget.gpuMinutes=8000", "budget.by=2099-01-01T00:00:00Z"} <= set(given)
    assert "chosen h200-8" in output and "a100-2node: 73 min on 16 GPUs, 29.32 EUR" in output
    assert "warning: left out: " in output and "no price of b200" in output
