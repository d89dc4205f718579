"""Rules of Kueue and what is not known, each with two or three gangs. Times are from now."""

from collections.abc import Sequence
from typing import Any

import pytest

from scripts.start.forecast import MARGIN, Known, Start, forecast
from scripts.start.simulation import BATCH_SECONDS
from tests.scripts.start.kueue import BEGIN, GPU, Gang, Object, stamp, workload

HOUR = 3600
LIMITS = ("borrowingLimit", "lendingLimit")


def queue(name: str = "one", quota: int = 16, cohort: str = "", **spec: Any) -> Object:
    limits: Object = {key: spec.pop(key) for key in LIMITS if key in spec}
    entry: Object = {"name": GPU, "nominalQuota": quota, **limits}
    flavors = [{"name": "a100", "resources": [entry]}, *spec.pop("flavors", [])]
    group = {"coveredResources": [GPU], "flavors": flavors}
    whole = {"cohortName": cohort, "resourceGroups": [group], **spec}
    return {"metadata": {"name": name}, "spec": whole, "status": {}}


def gang(name: str, gpus: int = 16, **fields: Any) -> Object:
    """A Workload; with `started` it holds its GPUs since then."""
    known = {"queue": "one", "priority": 0, "created": -2 * HOUR, "limit": None, **fields}
    known["created"] += BEGIN
    if known.get("started") is not None:
        known["started"] += BEGIN
    made = workload(Gang(name=name, gpus=gpus, seconds=0.0, **known), BEGIN)
    for podset in made["spec"]["podSets"]:
        podset["template"]["spec"]["containers"][0]["resources"]["requests"].pop("cpu")
    return made


def start(workloads: Sequence[Object], *queues: Object, **fields: Any) -> Start:
    entrances = [
        {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": name}}
        for name in ("one", "two")
    ]
    given: Any = {"left": {}, "space": "team", **fields}
    known = Known(
        cluster_queues=queues or (queue(),), local_queues=entrances, workloads=workloads, **given
    )
    return forecast(known, {"mine"}, BEGIN)["mine"]


def seconds(found: Start) -> float:
    assert found.expected is not None
    return found.expected - BEGIN


MINE = gang("mine", created=-60)
HOLDS = gang("big", started=-HOUR)


def test_a_run_with_progress_ends_as_it_says() -> None:
    found = start([HOLDS, MINE], left={"big": 6000.0})
    assert found.earliest and found.latest and not found.reasons
    assert found.earliest - BEGIN >= 4800 and found.latest - BEGIN <= 8300
    assert 5400 <= seconds(found) <= 7000
    assert found.sentence.startswith("Starts about ") and "UTC, in " in found.sentence


def test_a_run_that_never_ends_leaves_the_end_open_and_is_named() -> None:
    found = start([HOLDS, MINE, gang("behind", created=-5)])
    assert (found.expected, found.latest) == (None, None)
    assert found.earliest and found.earliest <= BEGIN + BATCH_SECONDS
    assert found.reasons == ("the end of big is not known (no time limit)",)
    assert found.sentence.startswith("When it starts is not known; ")
    later = start([HOLDS, gang("vis", 8, started=-60), MINE], queue(quota=24), left={"big": 6000.0})
    assert later.latest and not later.reasons, "the other's GPUs are not needed"


def test_a_time_limit_alone_is_the_latest_end() -> None:
    found = start([gang("big", started=-HOUR, limit=3 * HOUR), MINE])
    assert found.earliest and found.earliest <= BEGIN + BATCH_SECONDS
    assert seconds(found) == pytest.approx(2 / 3 * 2 * HOUR + BATCH_SECONDS)
    assert found.latest and 2 * HOUR <= found.latest - BEGIN <= 2.3 * HOUR
    assert found.reasons == ("only the time limit is known of big",)
    deadline = start([HOLDS, MINE], limits={"big": 500.0})
    assert seconds(deadline) == pytest.approx(2 / 3 * 500 + BATCH_SECONDS)


def test_ended_runs_say_how_much_of_its_limit_a_run_uses() -> None:
    times: Any = {"started": -3 * HOUR, "ended": BEGIN - 2.5 * HOUR, "limit": HOUR}
    ended = [gang(f"old-{n}", **times) for n in range(6)]
    found = start([*ended, gang("big", started=-HOUR, limit=4 * HOUR), MINE])
    assert seconds(found) == HOUR + BATCH_SECONDS and not found.reasons


def test_priority_and_age_decide_and_a_smaller_run_passes_only_without_strict_order() -> None:
    ahead = gang("ahead", priority=5, created=-30)
    left = {"big": 1000.0, "ahead": 5000.0}
    assert seconds(start([HOLDS, ahead, MINE], left=left)) > 5000
    small = gang("mine", 4, created=-10)
    free = [gang("big", 12, started=-HOUR), ahead, small]
    assert seconds(start(free, left=left)) == 0
    assert seconds(start(free, queue(queueingStrategy="StrictFIFO"), left=left)) > 5000


def test_quota_is_borrowed_as_far_as_both_queues_allow() -> None:
    def both(**limits: Any) -> float | None:
        lends = {"lendingLimit": limits.pop("lendingLimit")} if "lendingLimit" in limits else {}
        one = queue("one", 8, "all", **limits)
        return start([MINE, HOLDS_LESS], one, queue("two", 16, "all", **lends)).expected

    assert both() == BEGIN
    assert both(borrowingLimit=4) is None
    assert both(lendingLimit=4) is None


HOLDS_LESS = gang("two-run", 8, queue="two", started=-60)


def test_a_parent_cohort_lends_its_own_quota() -> None:
    entry = {"name": GPU, "nominalQuota": 8}
    group = {"coveredResources": [GPU], "flavors": [{"name": "a100", "resources": [entry]}]}
    cohorts = [
        {"metadata": {"name": "all"}, "spec": {"parentName": "firm"}},
        {"metadata": {"name": "firm"}, "spec": {"resourceGroups": [group]}},
    ]
    assert start([MINE], queue("one", 8, "all"), cohorts=cohorts).expected == BEGIN
    assert "does not fit" in start([MINE], queue("one", 4, "all"), cohorts=cohorts).sentence


def test_the_next_flavor_is_used_unless_it_refuses_the_pods() -> None:
    second = {"name": "h100", "resources": [{"name": GPU, "nominalQuota": 16}]}
    other = queue(flavors=[second])
    taint = {"key": "h100", "value": "yes", "effect": "NoSchedule"}
    tainted = [{"metadata": {"name": "h100"}, "spec": {"nodeTaints": [taint]}}]
    assert seconds(start([HOLDS, MINE], other)) == 0
    assert start([HOLDS, MINE], other, flavors=tainted).expected is None


@pytest.mark.parametrize(("policy", "starts"), [("LowerPriority", True), ("Never", False)])
def test_a_run_of_higher_priority_preempts(policy: str, starts: bool) -> None:
    high = gang("mine", priority=5)
    found = start([HOLDS, high], queue(preemption={"withinClusterQueue": policy}))
    assert (found.expected == BEGIN) is starts
    equal = start([HOLDS, MINE], queue(preemption={"withinClusterQueue": policy}))
    assert equal.expected is None


def test_a_preempted_run_waits_with_what_it_had_left() -> None:
    high = gang("high", priority=5, created=-30)
    high["status"]["requeueState"] = {"count": 1, "requeueAt": stamp(BEGIN + 500)}
    low = gang("low", priority=-5, started=-HOUR)
    mine = gang("mine", priority=-9)
    limits = {"high": 1000.0, "low": 2000.0}
    preempts = queue(preemption={"withinClusterQueue": "LowerPriority"})
    found = start([low, high, mine], preempts, limits=limits)
    latest = 3000 + 2 * BATCH_SECONDS  # low runs 500 s before high and 1500 s after
    assert found.latest == pytest.approx(BEGIN + latest * (1 + MARGIN))


def test_lent_quota_is_reclaimed() -> None:
    lent = gang("guest", 16, queue="two", started=-HOUR)
    other = queue("two", 0, "all")
    one = queue("one", 16, "all", preemption={"reclaimWithinCohort": "Any"})
    assert start([lent, MINE], one, other).expected == BEGIN
    assert start([lent, MINE], queue("one", 16, "all"), other).expected is None


def test_a_run_is_not_tried_before_its_backoff_is_over() -> None:
    mine = gang("mine")
    mine["status"]["requeueState"] = {"count": 1, "requeueAt": stamp(BEGIN + 300)}
    assert seconds(start([mine])) == 300 + BATCH_SECONDS


def test_a_run_that_never_fits_has_no_start() -> None:
    found = start([gang("mine", 32)])
    assert found.earliest is None and "does not fit" in found.sentence
    stopped = start([MINE], queue(stopPolicy="None"))
    assert stopped.expected == BEGIN and stopped.sentence.startswith("Starts now")


def test_runs_that_may_not_be_read_hold_what_the_queue_says() -> None:
    full = queue()
    used = {"name": "a100", "resources": [{"name": GPU, "total": "16"}]}
    full["status"] = {"flavorsReservation": [used], "pendingWorkloads": 3}
    found = start([MINE], full, is_all=False)
    said = "runs of other namespaces, which you may not read, hold quota, and 2 wait"
    assert (found.latest, found.expected, found.reasons[0]) == (None, None, said)


def test_admission_checks_leave_the_end_open() -> None:
    checked = queue(admissionChecksStrategy={"admissionChecks": [{"name": "nodes"}]})
    found = start([HOLDS, MINE], checked, left={"big": 100.0})
    assert found.expected and found.latest is None
    said = ("or later, without a latest time", "admission checks")
    assert all(each in found.sentence for each in said)
