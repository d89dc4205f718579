"""50 runs with a budget: none uses more than a step and a save beyond it, and the sums agree."""

from collections import Counter

import pytest

from tests.launchers.stop.budget_scenarios import SCENARIOS, results


def test_no_run_uses_more_than_a_step_and_a_save_beyond_its_budget() -> None:
    found = list(results())
    assert len(found) == SCENARIOS
    assert [each.scenario.seed for each in found if each.over > each.allowed] == []
    for each in found:  # what a run has used, by purpose, is what its attempts used
        assert each.said == pytest.approx(each.true, rel=0.01), each.scenario.seed
        assert each.checkpoint == each.step or each.scenario.faults, each.scenario.seed
        assert sum(each.said[n] for n in ("trained", "lost", "evaluation")) <= each.said["held"]
    ends = Counter(each.end for each in found)
    assert ends["budget.gpuMinutes"] > 10 and ends["budget.by"] > 5
