"""The consequence of a failed pod: the Job's podFailurePolicy, then the JobSet's failurePolicy.

The rules are the manifest's, so that a local run restarts as it would on a cluster.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scripts.local.pods import Pod
from scripts.manifest import Fields, JobSet


class Action(StrEnum):
    """Actions of a JobSet, by the API's names."""

    FAIL = "FailJobSet"
    RESTART = "RestartJobSet"
    RESTART_FREE = "RestartJobSetAndIgnoreMaxRestarts"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The failure of a Job as the Job controller reports it."""

    job: str
    reason: str
    message: str


def job_failure(pod: Pod, code: int) -> Failure:
    """Return the Job's failure after `pod` ended with `code`; backoffLimit is 0."""
    for index, rule in enumerate(pod.job.failure_rules):
        codes = rule.get("onExitCodes")
        if codes and rule["action"] == "FailJob" and _matches(codes, code):
            message = (
                f"Container {pod.job.container['name']} for pod default/{pod.name} failed with "
                f"exit code {code} matching FailJob rule at index {index}"
            )
            return Failure(job=pod.job.name, reason="PodFailurePolicy", message=message)
    return Failure(
        job=pod.job.name,
        reason="BackoffLimitExceeded",
        message="Job has reached the specified backoff limit",
    )


def _matches(codes: Fields, code: int) -> bool:
    listed: bool = code in codes["values"]
    wanted: bool = codes["operator"] == "In"
    return listed == wanted


def action(rules: Sequence[Fields], failure: Failure) -> Action:
    """Return the first matching rule's action; by default the JobSet restarts and counts it."""
    for rule in rules:
        reasons = rule.get("onJobFailureReasons") or [failure.reason]
        patterns = rule.get("onJobFailureMessagePatterns") or [""]
        targets = rule.get("targetReplicatedJobs") or [failure.job]
        if (
            failure.reason in reasons
            and failure.job in targets
            and any(re.search(pattern, failure.message) for pattern in patterns)
        ):
            return Action(rule["action"])
    return Action.RESTART


def restarts(jobset: JobSet, failure: Failure, counted: int) -> tuple[bool, int]:
    """Return whether to restart, and the new count of restarts against maxRestarts."""
    chosen = action(jobset.failure_rules, failure)
    if chosen is Action.RESTART_FREE:
        return True, counted
    if chosen is Action.RESTART and counted < jobset.max_restarts:
        return True, counted + 1
    return False, counted
