"""A failed pod has the consequence that the chart's policies give it."""

import pytest

from launchers.exits import FREE, USER, Exit
from scripts.demo.sources import VALUES
from scripts.helm import template
from scripts.local.failure_policy import Action, action, job_failure, restarts
from scripts.local.pods import expand
from scripts.manifest import JobSet, parse
from tests.scripts.local.rendered import manifest

FAILURES = [code for code in Exit if code]


@pytest.fixture(scope="module")
def chart() -> JobSet:
    return parse(template("run", [VALUES]))


@pytest.mark.parametrize("code", FAILURES)
def test_the_charts_policies_read_every_exit_code_as_the_contract_says(
    chart: JobSet, code: Exit
) -> None:
    expected = Action.FAIL if code in USER else Action.RESTART
    if code in FREE:
        expected = Action.RESTART_FREE
    failure = job_failure(expand(chart)[0], code)
    assert action(chart.failure_rules, failure) is expected


@pytest.mark.parametrize(
    ("code", "limit", "counted", "restarted"),
    [(1, 1, 0, (True, 1)), (1, 1, 1, (False, 1)), (143, 0, 0, (True, 0)), (78, 5, 0, (False, 0))],
    ids=["unknown", "unknown at the limit", "free beyond the limit", "a user error"],
)
def test_a_failure_restarts_by_its_code_and_the_limit(
    code: int, limit: int, counted: int, restarted: tuple[bool, int]
) -> None:
    jobset = parse(manifest(max_restarts=limit))
    assert restarts(jobset, job_failure(expand(jobset)[0], code), counted) == restarted


def test_a_rule_for_another_replicated_job_does_not_match() -> None:
    failure = job_failure(expand(parse(manifest()))[0], 1)
    assert failure.reason == "BackoffLimitExceeded"
    rules = [{"action": "FailJobSet", "targetReplicatedJobs": ["clone"]}]
    assert action(rules, failure) is Action.RESTART
