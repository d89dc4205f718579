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
    expected = Action.RESTART
    if code in USER:
        expected = Action.FAIL
    if code in FREE:
        expected = Action.RESTART_FREE
    failure = job_failure(expand(chart)[0], code)
    assert action(chart.failure_rules, failure) is expected


def test_an_unknown_failure_restarts_until_the_limit() -> None:
    jobset = parse(manifest(max_restarts=1))
    failure = job_failure(expand(jobset)[0], 1)
    assert failure.reason == "BackoffLimitExceeded"
    assert restarts(jobset, failure, 0) == (True, 1)
    assert restarts(jobset, failure, 1) == (False, 1)


def test_a_free_restart_is_granted_beyond_the_limit_and_not_counted() -> None:
    jobset = parse(manifest(max_restarts=0))
    assert restarts(jobset, job_failure(expand(jobset)[0], 143), 0) == (True, 0)


def test_a_user_error_is_never_restarted() -> None:
    jobset = parse(manifest(max_restarts=5))
    assert restarts(jobset, job_failure(expand(jobset)[0], 78), 0) == (False, 0)


def test_a_rule_for_another_replicated_job_does_not_match() -> None:
    failure = job_failure(expand(parse(manifest()))[0], 1)
    rules = [{"action": "FailJobSet", "targetReplicatedJobs": ["clone"]}]
    assert action(rules, failure) is Action.RESTART
