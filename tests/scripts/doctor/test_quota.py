"""Quota: what Kueue counts, what a cohort lends, what a namespace allows."""

import copy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
import yaml

from scripts.doctor import quota
from scripts.doctor.api import Answer
from scripts.doctor.command import examine
from scripts.doctor.findings import Level
from scripts.doctor.quota import CONFIG_KEY, KueueConfig
from tests.scripts.doctor.healthy import Object, forbidden, found, named, objects, release, snapshot
from tests.scripts.doctor.plant import pick

JOBS = ["stages.placement=jobs", "stages.convert.skip=true"]
RDMA = "rdma/hca_shared_devices_a"


def config(**resources: Any) -> Answer:
    return found({"data": {CONFIG_KEY: yaml.safe_dump({"resources": resources})}})


def with_queue() -> tuple[list[Object], Object]:
    """The objects of the healthy cluster, and the ClusterQueue among them."""
    there = copy.deepcopy(objects())
    return there, pick(there, "ClusterQueue")


def resources(queue: Object) -> list[Object]:
    found: list[Object] = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return found


def uncovered() -> list[Object]:
    there, queue = with_queue()
    queue["spec"]["resourceGroups"][0]["coveredResources"].remove(RDMA)
    return there


@pytest.mark.parametrize(
    ("answer", "subjects"),
    [
        (config(), [f"quota {RDMA}"]),
        (config(excludeResourcePrefixes=["rdma/"]), []),
        (config(quotaCheckStrategy="IgnoreUndeclared"), []),
        (config(transformations=[{"input": RDMA, "strategy": "Replace"}]), []),
        (Answer(status=404), [f"quota {RDMA}"]),
        (found({"data": {CONFIG_KEY: "{"}}), [f"quota {RDMA}"]),
    ],
)
def test_kueue_s_configuration_may_leave_a_resource_out(
    answer: Answer, subjects: list[str]
) -> None:
    findings = examine(release(), snapshot(release(), uncovered(), kueue_config=answer))
    failed = [each for each in findings if each.level is Level.FAIL]
    assert [each.subject for each in failed] == subjects
    if not quota.read_kueue_config(answer).known:
        assert all("may not be read" in each.found for each in failed)


def test_a_resource_that_kueue_transforms_is_said_to_be_unchecked() -> None:
    answer = config(transformations=[{"input": RDMA, "strategy": "Replace"}])
    findings = examine(release(), snapshot(release(), uncovered(), kueue_config=answer))
    warned = [each.subject for each in findings if each.level is Level.WARN]
    assert warned == [f"quota {RDMA}"]


@pytest.mark.parametrize(
    ("sets", "content", "warned"),
    [
        ([], {}, None),
        ([], {"waitForPodsReady": {"timeout": "5m"}}, "300 s"),
        ([], {"waitForPodsReady": {"timeout": "1h30m0s"}}, None),
        (JOBS, {}, "1800 s"),
        (JOBS, {"waitForPodsReady": {"timeout": "1h30m0s"}}, "5400 s"),
        (JOBS, None, "may not be read"),
        ([], {"waitForPodsReady": {"recoveryTimeout": "3m"}}, "ready again in 180 s"),
        ([], {"waitForPodsReady": {"timeout": "1h", "recoveryTimeout": "30m"}}, None),
        ([], {"waitForPodsReady": {"timeout": "5m", "recoveryTimeout": "5m"}}, "300 s"),
    ],
)
def test_a_run_that_may_not_be_ready_in_time_is_warned_of(
    sets: list[str], content: Object | None, warned: str | None
) -> None:
    text = yaml.safe_dump({"apiVersion": "v1", **(content or {})})
    answer = Answer(status=403) if content is None else found({"data": {CONFIG_KEY: text}})
    wanted = release(*sets)
    findings = quota.check_ready_time(wanted, snapshot(wanted, kueue_config=answer))
    assert [each.level for each in findings] == ([Level.WARN] if warned else [])
    assert all(str(warned) in each.found for each in findings)


def cohort(nominal: str, **limits: str) -> list[Object]:
    """8 GPUs of the queue itself, and a neighbour with `nominal` of them."""
    there, queue = with_queue()
    queue["spec"]["cohortName"] = "all"
    other = copy.deepcopy(queue)
    other["metadata"]["name"] = "other"
    resources(queue)[2]["nominalQuota"] = "8"
    resources(other)[2]["nominalQuota"] = nominal
    for key, value in limits.items():
        resources(queue if key == "borrowingLimit" else other)[2][key] = value
    return [*there, other]


@pytest.mark.parametrize(
    ("nominal", "limits", "short"),
    [
        ("8", {}, ""),
        ("7", {}, "nvidia.com/gpu 15 of 16"),
        ("8", {"borrowingLimit": "4"}, "nvidia.com/gpu 12 of 16"),
        ("8", {"lendingLimit": "0"}, "nvidia.com/gpu 8 of 16"),
    ],
)
def test_a_cohort_lends_what_its_limits_allow(
    nominal: str, limits: dict[str, str], short: str
) -> None:
    findings = examine(release(), snapshot(release(), cohort(nominal, **limits)))
    failed = [each.found for each in findings if each.level is Level.FAIL]
    assert len(failed) == bool(short)
    assert all(short in each for each in failed)


def test_cohorts_that_may_not_be_read_may_lend() -> None:
    there = snapshot(release(), cohort("7"))
    unread = replace(there, lists={**there.lists, "cohorts": forbidden("cohorts")})
    findings = examine(release(), unread)
    assert [each.level for each in findings if each.id == "quota-may-borrow"] == [Level.WARN]
    assert not [each for each in findings if each.level is Level.FAIL]


def test_stage_pods_and_the_gang_share_one_quota() -> None:
    chosen = release("stages.placement=jobs")
    there, queue = with_queue()
    resources(queue)[0]["nominalQuota"] = "162"
    findings = examine(chosen, snapshot(chosen, there))
    failed = [each for each in findings if each.level is Level.FAIL]
    assert [each.subject for each in failed] == ["quota for node"]
    assert "cpu 158 of 160" in failed[0].found


def test_a_namespace_s_quota_counts_the_whole_gang() -> None:
    wanted = quota.resource_quota_usage(release())
    assert wanted["requests.nvidia.com/gpu"] == 16
    assert wanted["cpu"] == wanted["requests.cpu"] == 160
    assert wanted["limits.memory"] == Decimal(2 * 480 * 2**30)
    assert wanted["pods"] == 2
    used = {"hard": {"pods": "3"}}
    busy = named("ResourceQuota", "team", spec=used, status={"used": {"pods": "2"}})
    lines = quota.check_resource_quota(release(), snapshot(release(), [*objects(), busy]))
    assert [each.level.value for each in lines] == ["warn"]


def test_a_resource_that_nobody_requests_needs_no_quota() -> None:
    assert KueueConfig().counted({"cpu": Decimal()}, []) == {}
