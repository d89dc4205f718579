"""`why` on what Kueue itself says: each state of the queue, provoked with real objects."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from megatron_dpo import Run as Asked
from scripts.manifest import KUEUE
from tests.e2e import pausing
from tests.e2e.api import Object
from tests.e2e.faults import Faults
from tests.e2e.measured import measured
from tests.e2e.pausing import Pausing, queue
from tests.e2e.rights import member
from tests.e2e.runs import Run
from tests.e2e.see import megatron_dpo
from tests.e2e.space import Space
from tests.e2e.until import until

pytestmark = pytest.mark.usefixtures("asked")
PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority"}}
WORKLOADS = f"workloads.{KUEUE}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run, what Kueue says of it, and what `why` makes of that."""

    id: str
    run: Pausing
    said: str
    """Part of the message of Kueue's condition."""
    facts: tuple[str, ...]
    condition: tuple[str, str] = ("QuotaReserved", "False")


def explained(space: Space, cases: list[Case]) -> None:
    """Wait for Kueue's condition of each run; assert the only state that `why` names, and facts."""
    for case in cases:
        _await(Run(name=case.run.name, space=space), case)
    wrong = {}
    for case in cases:
        found = states(space, case.run.name)
        said = found.get(case.id, "")
        if list(found) != [case.id] or any(fact not in said for fact in case.facts):
            wrong[case.run.name] = (case.id, case.facts, found)
    assert wrong == {}


def _await(run: Run, case: Case) -> None:
    kind, status = case.condition

    def holds() -> bool:
        found = (run.workload or {}).get("status", {}).get("conditions", [])
        return any(
            (each["type"], each["status"]) == (kind, status) and case.said in each["message"]
            for each in found
        )

    try:
        until(f"Kueue says of {run.name}: {case.said}", holds, seconds=30)
    except AssertionError as error:
        raise AssertionError(f"{error}; {(run.workload or {}).get('status')}") from None


def states(space: Space, name: str) -> dict[str, str]:
    """Return the sentences of `why` by id, in their order."""
    found = Asked(name, namespace=space.name, source="api").why()
    return {each.id: each.sentence for each in found.reasons}


def change(space: Space, kind: str, name: str, spec: Mapping[str, object]) -> None:
    text = json.dumps({"spec": spec})
    space.kubectl.run("patch", kind, name, "--type=merge", f"--patch={text}")


def workload(space: Space, name: str) -> str:
    found = until(
        f"{name} has a Workload", lambda: Run(name=name, space=space).workload, seconds=30
    )
    return str(found["metadata"]["name"])


def _checked(name: str) -> Object:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": name}]}}


def test_why_says_what_keeps_a_run_in_its_queue(empty: Space) -> None:
    capacity = pausing.check(empty, "capacity")
    empty.kubectl.apply(_queues(empty, capacity))
    for each in ("long", "victim"):
        admitted = ("wait", f"{WORKLOADS}/{each}", "--for=condition=Admitted", "--timeout=30s")
        empty.kubectl.run(*admitted)
    cases = _cases(empty.name, capacity)
    others = (Pausing(name=name, queue=name) for name in ("stopped", "orphan"))
    pausing.start(empty, *others, *(case.run for case in cases))
    with measured(f"megatron-dpo why, {len(cases)} states of Kueue's queues"):
        explained(empty, cases)
    _behind(empty)
    _without_rights(empty)


def _queues(space: Space, capacity: str) -> list[Object]:
    """Return the queues of the cases, and the runs that hold the quota of two of them."""
    return [
        pausing.plain(space),
        pausing.local_queue(space, "orphan", "no-such-queue"),
        *queue(space, "stopped", spec={"stopPolicy": "Hold"}),
        *queue(space, "busy", gpus=8, spec={"queueingStrategy": "StrictFIFO"}),
        pausing.holder(space, "long", "busy", 8),
        *queue(space, "checked", spec=_checked(capacity)),
        *queue(space, "urgent", gpus=8, spec=PREEMPTS),
        pausing.holder(space, "victim", "urgent", 8),
    ]


def _cases(name: str, capacity: str) -> list[Case]:
    """Return a run for each reason to wait that no remedy of remedies.yaml ends.

    ``name`` is the namespace's and begins its queues'.
    """
    return [
        Case(
            id="quota-short",
            run=Pausing(name="short", queue="busy", gpus=4),
            said="insufficient unused quota",
            facts=(f"4 more of nvidia.com/gpu needed in flavor {name}-plain; long holds 8",),
        ),
        Case(
            id="admission-check-pending",
            run=Pausing(name="checked", queue="checked"),
            said="Quota reserved",
            facts=(f"admission check {capacity} has not passed yet",),
            condition=("QuotaReserved", "True"),
        ),
        Case(
            id="preempting",
            run=Pausing(name="urgent", queue="urgent", gpus=4),
            said="Pending the preemption of 1 workload",
            facts=("preempting 1 workload for this run; its pods",),
        ),
    ]


def _behind(space: Space) -> None:
    """A run behind the first one of a StrictFIFO queue, of which Kueue says nothing."""
    pausing.start(space, Pausing(name="behind", queue="busy", gpus=4))
    workload(space, "behind")
    found = states(space, "behind")
    assert list(found) == ["queued"]
    assert "number 2 of 2 waiting in LocalQueue busy" in found["queued"]


def _without_rights(space: Space) -> None:
    """A user who may not read ClusterQueues is given what the LocalQueue says of them."""
    config = member(space, "member")
    for run, id, fact in (
        ("stopped", "cluster-queue-inactive", "it is stopped or incomplete"),
        ("orphan", "cluster-queue-missing", "no-such-queue"),
        ("short", "quota-short", "long holds 8 (other namespaces may not be read)"),
    ):
        said = megatron_dpo(space, "why", run, "--json", kubeconfig=config)
        [found] = said.document["reasons"]
        assert found["id"] == id and fact in found["sentence"], found
        assert said.document["notes"] == []


DELAY_SECONDS = 300
"""Before Kueue queues a run again whose check asks for a delay; the state lasts as long."""


def test_why_says_by_what_a_run_was_evicted(empty: Space) -> None:
    gate = pausing.check(empty, "gate")
    one = ("drained", "emptied", "limited", "off", "removed")
    objects = [pausing.plain(empty)] + [each for name in one for each in queue(empty, name)]
    objects += queue(empty, "contended", gpus=4, spec=PREEMPTS)
    objects += queue(empty, "gated", gpus=4, spec=_checked(gate))
    objects += queue(empty, "refused", gpus=4, spec=_checked(gate))
    objects += queue(empty, "delayed", gpus=4, spec=_checked(gate))
    empty.kubectl.apply(objects)
    limit = {f"{KUEUE}/max-exec-time-seconds": "1"}
    pausing.start(
        empty,
        *(Pausing(name=name, queue=name) for name in one if name != "limited"),
        Pausing(name="limited", queue="limited", labels=limit),
        Pausing(name="low", queue="contended", gpus=4, priority="low"),
        Pausing(name="again", queue="gated", gpus=4),
        Pausing(name="refused", queue="refused", gpus=4),
        Pausing(name="delayed", queue="delayed", gpus=4),
    )
    for name in ("drained", "emptied", "removed", "low"):
        Run(name=name, space=empty).condition("Admitted")
    for name in ("again", "refused", "delayed"):
        Run(name=name, space=empty).condition("QuotaReserved")
    _evict(empty, gate)
    cases = {
        "drained": ("evicted-queue-stopped", "The ClusterQueue is stopped"),
        "emptied": ("evicted-queue-stopped", "The LocalQueue is stopped"),
        "limited": ("max-exec-time", "exceeding the maximum execution time"),
        "off": ("stopped", "by a person"),
        "removed": ("deactivated", "due to maintenance of the racks"),
        "low": ("evicted-preempted", "by high, due to prioritization in the ClusterQueue"),
        "again": ("evicted-admission-check", f'Retry state: "{gate}" (no capacity)'),
        "refused": ("admission-check-rejected", f"check {gate} rejected the run: zone is closed."),
    }
    first = {
        "drained": "cluster-queue-stopped",
        "emptied": "local-queue-stopped",
        "low": "quota-short",
        "again": "quota-exceeds-maximum",
    }
    for name in cases:
        run = Run(name=name, space=empty)
        run.condition("Evicted")
        run.condition("QuotaReserved", "False")
        until(f"{name} waits again", lambda run=run: run.suspended, seconds=30)  # type: ignore[misc]
    for name, (id, fact) in cases.items():
        found = states(empty, name)
        expected = [first[name], id] if name in first else [id]
        assert list(found) == expected and fact in found[id], (name, found)
    delayed = states(empty, "delayed")
    assert list(delayed) == ["admission-check-retry", "requeue-backoff"], delayed
    assert ": busy" in delayed["admission-check-retry"]
    assert "evictions" not in delayed["requeue-backoff"]


def _evict(space: Space, gate: str) -> None:
    drain = {"stopPolicy": "HoldAndDrain"}
    change(space, f"clusterqueues.{KUEUE}", f"{space.name}-drained", drain)
    change(space, f"localqueues.{KUEUE}", "emptied", drain)
    change(space, WORKLOADS, workload(space, "off"), {"active": False})
    pausing.condemn(space, workload(space, "removed"), "Maintenance", "maintenance of the racks")
    pausing.start(space, Pausing(name="high", queue="contended", gpus=4, priority="high"))
    pausing.answer(space, workload(space, "delayed"), gate, "Retry", "busy", DELAY_SECONDS)
    space.kubectl.apply(queue(space, "gated", gpus=0, spec=_checked(gate)))
    pausing.answer(space, workload(space, "again"), gate, "Retry", "no capacity")
    pausing.answer(space, workload(space, "refused"), gate, "Rejected", "zone is closed")
    Run(name="high", space=space).condition("Admitted")


READY_SECONDS, BACKOFF_SECONDS = 12, 20
"""waitForPodsReady.timeout, and its backoff: long enough for a call of `why` on a busy machine."""


def test_why_says_what_wait_for_pods_ready_does(empty: Space, faults: Faults) -> None:
    backoff = {
        "backoffBaseSeconds": BACKOFF_SECONDS,
        "backoffMaxSeconds": BACKOFF_SECONDS,
        "backoffLimitCount": 1,
    }
    patience = {"timeout": f"{READY_SECONDS}s", "blockAdmission": True}
    faults.configure_kueue({"waitForPodsReady": {**patience, "requeuingStrategy": backoff}})
    empty.kubectl.apply([pausing.plain(empty), *queue(empty, "patient")])
    pausing.start(empty, Pausing(name="slow", queue="patient", image="localhost/none"))
    slow = Run(name="slow", space=empty)
    slow.condition("Admitted")
    pausing.start(empty, Pausing(name="behind", queue="patient"))
    behind = Run(name="behind", space=empty)
    behind.condition("QuotaReserved", "False")
    found = states(empty, "behind")
    assert list(found) == ["pods-ready-blocked"], (found, behind.workload)
    behind.space.kubectl.delete("jobset", "behind")
    slow.condition("Evicted")
    until("its pods are gone", lambda: slow.pods() == [], seconds=BACKOFF_SECONDS)
    found = states(empty, "slow")
    assert list(found) == ["requeue-backoff", "evicted-pods-ready-timeout"], (found, slow.workload)
    assert ", after 1 eviction." in found["requeue-backoff"]
    until("Kueue gives up", lambda: _is_inactive(slow), seconds=120)
    slow.condition("QuotaReserved", "False")
    found = states(empty, "slow")
    assert list(found) == ["requeuing-limit"], (found, slow.workload)
    assert "exceeding the maximum number of re-queuing retries" in found["requeuing-limit"]


def _is_inactive(run: Run) -> bool:
    return bool(run.workload and run.workload["spec"].get("active") is False)
