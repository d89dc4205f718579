"""Objects that a user may not read are not checked; a warning gives the reason."""

from typing import Any

import pytest

from scripts.doctor.api import JOBSETS, PODS, Answer
from scripts.doctor.command import examine
from scripts.doctor.findings import Finding, Level
from scripts.doctor.permissions import needed_permissions
from scripts.doctor.snapshot import Permission, Snapshot
from tests.scripts.doctor.healthy import PLURALS, forbidden, found, groups, release, snapshot
from tests.scripts.doctor.test_storage import NEW

CREATE = Permission(verb="create", kind=JOBSETS, purpose="helm install")


def without(*plurals: str) -> Snapshot:
    whole = snapshot(release())
    refused = {plural: forbidden(plural) for plural in plurals}
    return snapshot(release(), lists={**whole.lists, **refused})


def other_than_ok(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.level is not Level.OK]


@pytest.mark.parametrize("plural", ["nodes", "clusterqueues", "persistentvolumeclaims", "secrets"])
def test_a_forbidden_list_is_a_warning(plural: str) -> None:
    lines = other_than_ok(examine(release(), without(plural)))
    assert lines
    for each in lines:
        assert each.level is Level.WARN and each.id.endswith("-unchecked")
        assert f"{plural} is forbidden" in each.found


def test_a_user_who_may_see_nothing_gets_warnings_only() -> None:
    whole = snapshot(release())
    nothing = snapshot(
        release(),
        schema=forbidden("openapi"),
        lists={plural: forbidden(plural) for plural in (*PLURALS.values(), "secrets")},
        objects={key: forbidden(key[0]) for key in whole.objects},
        pods={"node": Answer(status=403, content={"message": "eve cannot create resource pods"})},
        jobset=Answer(status=403, content={"message": "eve cannot create resource jobsets"}),
    )
    levels = {each.level for each in examine(release(), nothing)}
    assert levels == {Level.OK, Level.WARN}


BUSY = Answer(status=503, content={"message": "the server is currently unable"})
ERROR = found({"status": {"allowed": False, "evaluationError": "no answer of the authorizer"}})
UNKNOWN: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("jobset-unchecked", (), {"jobset": BUSY}),
    ("pods-unchecked", (), {"pods": {"node": BUSY}}),
    ("name-unchecked", (), {"lists": {"services": BUSY}}),
    ("claim-unchecked", NEW, {"lists": {"persistentvolumeclaims": BUSY}}),
    ("permission-unchecked", (), {"permissions": {CREATE: ERROR}}),
]


@pytest.mark.parametrize(("id", "sets", "answers"), UNKNOWN, ids=[each[0] for each in UNKNOWN])
def test_what_is_not_known_is_neither_refused_nor_free(
    id: str, sets: tuple[str, ...], answers: dict[str, Any]
) -> None:
    chosen = release(*sets)
    whole = snapshot(chosen)
    merged = {name: {**getattr(whole, name), **given} for name, given in answers.items()
              if isinstance(given, dict)}  # fmt: skip
    (line,) = other_than_ok(examine(chosen, snapshot(chosen, **{**answers, **merged})))
    assert (line.level, line.id) == (Level.WARN, id)


def test_a_missing_right_is_named_and_only_the_needed_ones_fail() -> None:
    denied = found({"status": {"allowed": False}})
    verdicts = {
        right: denied
        for right in needed_permissions(claim=False, queue=True)
        if right.kind in (JOBSETS, PODS) and right.verb == "create"
    }
    lines = other_than_ok(examine(release(), snapshot(release(), permissions=verdicts)))
    assert [(each.level.value, each.subject) for each in lines] == [
        ("fail", "permission create jobsets.jobset.x-k8s.io"),
        ("warn", "permission create pods"),
    ]


@pytest.mark.parametrize(("status", "level"), [(0, "fail"), (401, "fail"), (403, "warn")])
def test_without_an_answer_there_is_one_line(status: int, level: str) -> None:
    answer = Answer(status=status, content={"message": "connection refused"})
    (line,) = examine(release(), snapshot(release(), version=answer))
    assert (line.level.value, line.subject) == (level, "API server")
    assert "connection refused" in line.found


def test_old_servers_and_missing_controllers_are_named() -> None:
    def failed(**answers: Any) -> list[Finding]:
        findings = examine(release(), snapshot(release(), **answers))
        return [each for each in findings if each.level is Level.FAIL]

    old = failed(version=found({"gitVersion": "v1.30.9+k3s1"}))
    assert [each.found for each in old] == ["Kubernetes v1.30.9+k3s1"]
    assert [each.subject for each in failed(groups=groups({}))] == ["JobSet", "Kueue"]


@pytest.mark.parametrize(("version", "level"), [("v1.35.6", "fail"), ("v1.36.0-gke.100", "ok")])
def test_jobsets_agent_needs_kubelets_that_restart_pods_in_place(version: str, level: str) -> None:
    wanted = release("restarts.agentImage=example.com/agent:v1")
    there = snapshot(wanted, version=found({"gitVersion": version}))
    [line] = [each for each in examine(wanted, there) if each.subject == "restarts.agentImage"]
    assert (line.level.value, version in line.found) == (level, True)
    assert not [each for each in examine(release(), there) if each.subject == line.subject]


@pytest.mark.parametrize(
    ("asked", "plurals"),
    [("claim", {"persistentvolumeclaims"}), ("account", {"serviceaccounts"})]
    + [("policy", {"networkpolicies"}), ("queue", {"workloads"})]
    + [("role", {"roles", "rolebindings"})],
)
def test_an_object_that_the_values_ask_for_needs_rights(asked: str, plurals: set[str]) -> None:
    least = {each.kind.plural for each in needed_permissions(claim=False, queue=False)}
    rights = needed_permissions(**{"claim": False, "queue": False, asked: True})
    assert {each.kind.plural for each in rights} - least == plurals
