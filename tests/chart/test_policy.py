"""Exit codes: launchers/exits.py, the Jobs' podFailurePolicy and the JobSet's rules agree."""

import re

import pytest

from launchers.exits import FREE, USER, Exit
from tests.chart.helm import Document, jobs, kind, render

MESSAGE = (
    "Container launcher for pod ns/run-node-0-1-abcde failed with exit code {} "
    "matching FailJob rule at index 1"
)
"""Kubernetes: pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy."""
DISRUPTED = "Pod ns/run-node-0-1-abcde has condition {} matching FailJob rule at index 0"


def failure_policy() -> Document:
    policy: Document = kind(render(), "JobSet")["spec"]["failurePolicy"]
    return policy


def action(message: str, reason: str = "PodFailurePolicy") -> str:
    """Do what JobSet does: the first rule that matches, else a restart that counts."""
    for rule in failure_policy()["rules"]:
        patterns = rule["onJobFailureMessagePatterns"]
        if reason in rule["onJobFailureReasons"] and any(re.search(p, message) for p in patterns):
            return str(rule["action"])
    return "RestartJobSet"


def expected(code: Exit) -> str:
    if code in USER:
        return "FailJobSet"
    return "RestartJobSetAndIgnoreMaxRestarts" if code in FREE else "RestartJobSet"


@pytest.mark.parametrize("code", [code for code in Exit if code is not Exit.OK])
def test_each_exit_code_gets_the_action_of_the_contract(code: Exit) -> None:
    rules = jobs(render())["node"]["podFailurePolicy"]["rules"]
    listed = [c for rule in rules for c in rule.get("onExitCodes", {}).get("values", [])]
    # A code in no rule fails the Job by its backoff limit, and JobSet's default restarts.
    reason = "PodFailurePolicy" if code in listed else "BackoffLimitExceeded"
    assert action(MESSAGE.format(int(code)), reason) == expected(code)


def test_the_groups_are_those_of_the_launcher() -> None:
    rules = jobs(render())["node"]["podFailurePolicy"]["rules"]
    assert [set(r["onExitCodes"]["values"]) for r in rules[1:]] == [set(FREE), set(USER)]
    assert {r["action"] for r in rules} == {"FailJob"}


def test_a_disruption_comes_first_and_is_free() -> None:
    rules = jobs(render())["node"]["podFailurePolicy"]["rules"]
    listed = {each["type"]: each["status"] for each in rules[0]["onPodConditions"]}
    assert listed == {"DisruptionTarget": "True", "TerminatedByKueue": "True"}
    for each in listed:
        assert action(DISRUPTED.format(each)) == "RestartJobSetAndIgnoreMaxRestarts"


@pytest.mark.parametrize("code", [6, 7, 14, 164, 640, 755, 1143])
def test_a_code_that_holds_another_one_is_not_taken_for_it(code: int) -> None:
    assert action(MESSAGE.format(code)) == "RestartJobSet"


def test_the_whole_gang_restarts_and_nothing_else_does() -> None:
    policy = failure_policy()
    assert policy["restartStrategy"] == "BlockingRecreate"
    assert policy["maxRestarts"] == 5
    for spec in jobs(render()).values():
        assert spec["backoffLimit"] == 0
        assert spec["podReplacementPolicy"] == "Failed"
        assert spec["completionMode"] == "Indexed"
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        assert "ttlSecondsAfterFinished" not in spec
        assert "suspend" not in spec
