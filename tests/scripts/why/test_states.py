"""The table of states: every row is reached from the objects that its controllers write."""

from __future__ import annotations

import pytest

from scripts.why.command import EXITS
from scripts.why.reasons import CONDITIONS, State, explain, states
from tests.scripts.observe.planted import jobset, pod, suspended, view, workload
from tests.scripts.why.states import STATES


@pytest.mark.parametrize("id", STATES)
def test_a_planted_state_is_reported_first_with_its_facts(id: str) -> None:
    made, fact = STATES[id]
    found = explain(made())
    assert found[0].id == id, [each.id for each in found]
    assert fact in found[0].sentence
    assert found[0].remedy and "{" not in found[0].remedy.replace("{gpu", "")


def test_the_table_has_a_condition_and_a_case_for_each_row_and_no_more() -> None:
    ids = [state.id for state in states()]
    assert len(ids) == len(set(ids)) > 60
    assert set(ids) == set(CONDITIONS) == set(STATES)


@pytest.mark.parametrize("state", states(), ids=lambda state: str(state.id))
def test_a_row_is_one_sentence_and_an_action(state: State) -> None:
    assert state.sentence.endswith(".")
    assert state.remedy.endswith(".") or state.remedy in ("{remedy}", "{next}")


@pytest.mark.parametrize("id", STATES)
def test_kinds_tell_scripts_what_to_do(id: str) -> None:
    row = next(each for each in states() if each.id == id)
    assert row.kind in EXITS


def test_each_moment_between_installation_and_the_first_pod_is_known() -> None:
    """Also to `list`, which reads neither events nor the queue."""
    admitted = workload(holds=16)
    moments = {
        "queued": [view(suspended(), workloads=[workload()])],
        "pods-awaited": [
            view(suspended(), workloads=[admitted]),
            view(jobset(), workloads=[admitted]),
            view(jobset(queue=None)),
            view(jobset(), workloads=[admitted], pods=[pod(0, None), pod(1, None)]),
        ],
        "workload-missing": [view(suspended())],
    }
    for id, views in moments.items():
        assert [explain(each)[0].id for each in views] == [id] * len(views)
