"""Pod Security, by the API server's own admission: each option at its level, and refused below."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cluster.cluster import Cluster
from scripts.cluster.controllers import merge
from tests.e2e import space as spaces
from tests.e2e import standin
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.kubectl import Refused as NotAdmitted
from tests.e2e.release import Release
from tests.e2e.runs import Run
from tests.e2e.space import Space
from tests.e2e.until import until

LEVELS = ("restricted", "baseline", "privileged")
ROOT: Object = {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}
OTHER: Object = {"workspace": {"existingClaim": None}}
OPTIONS: dict[str, tuple[str, Object]] = {
    "the default values": ("restricted", {}),
    "workspace.pvc": ("restricted", OTHER | {"workspace": {"pvc": {"size": "1Gi"}}}),
    "stages.placement": (
        "restricted",
        {"stages": {"placement": "jobs", "convert": {"skip": True}}},
    ),
    "root": ("baseline", {"podSecurityContext": ROOT}),
    "workspace.nfs": ("baseline", OTHER | {"workspace": {"nfs": {"server": "h", "path": "/"}}}),
    "capability": ("baseline", {"securityContext": {"capabilities": {"add": ["CHOWN"]}}}),
    "capabilities kept": ("baseline", {"securityContext": {"capabilities": {"drop": ["KILL"]}}}),
    "allowPrivilegeEscalation": (
        "baseline",
        {"securityContext": {"allowPrivilegeEscalation": True}},
    ),
    "seccomp none": ("baseline", {"podSecurityContext": {"seccompProfile": None}}),
    "workspace.hostPath": ("privileged", {"workspace": {"hostPath": {"path": "/mnt"}}}),
    "network.profile ib-shared": ("privileged", {"network": {"profile": "ib-shared"}}),
    "debug.ptrace": ("privileged", {"debug": {"ptrace": True}, "podSecurityContext": ROOT}),
    "seccomp Unconfined": (
        "privileged",
        {"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}},
    ),
    "privileged": ("privileged", {"securityContext": {"privileged": True}}),
}
"""What needs which level; chart/README.md says the same to people."""


@pytest.fixture(scope="module")
def by_level(
    cluster: Cluster, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Space]]:
    """An empty namespace of each level."""
    folder: Path = tmp_path_factory.mktemp("levels")
    opened = [spaces.opened(cluster, kubectl, name, name, folder) for name in LEVELS]
    with opened[0] as restricted, opened[1] as baseline, opened[2] as privileged:
        made = dict(zip(LEVELS, (restricted, baseline, privileged), strict=True))
        for each in made.values():
            account = ("wait", "serviceaccount/default", "--for=create", "--timeout=30s")
            each.kubectl.run(*account)
        yield made


def described(space: Space, over: Object) -> Release:
    """Describe a run of the chart's defaults, without a file of values/."""
    values = merge(standin.values(), over)
    if "existingClaim" in values["workspace"] and len(values["workspace"]) > 1:
        values["workspace"] = {**values["workspace"], "existingClaim": None}
    return Release(name="dpo", space=space, values=values)


def pods(release: Release) -> list[Object]:
    """Return a Pod of each template of the JobSet."""
    jobset = next(item for item in release.render() if item["kind"] == "JobSet")
    templates = [job["template"]["spec"]["template"] for job in jobset["spec"]["replicatedJobs"]]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{i}"}, "spec": each["spec"]}
        for i, each in enumerate(templates)
    ]


def admit(release: Release) -> None:
    """Let the namespace's admission judge the run's pods; nothing is made."""
    for pod in pods(release):
        words = ("create", "--dry-run=server", "--validate=ignore", "-f", "-")
        release.space.kubectl.run(*words, stdin=standin.text(pod))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_admitted_at_its_level_and_refused_below(
    by_level: dict[str, Space], option: str
) -> None:
    level, over = OPTIONS[option]
    admit(described(by_level[level], over))
    for below in LEVELS[: LEVELS.index(level)]:
        with pytest.raises(NotAdmitted, match="violates PodSecurity"):
            admit(described(by_level[below], over))


@pytest.mark.parametrize("option", OPTIONS)
def test_notes_say_the_level_that_admission_asks_for(
    by_level: dict[str, Space], option: str
) -> None:
    level, over = OPTIONS[option]
    notes = described(by_level["privileged"], over).install("--dry-run=client")
    told = re.search(r"the namespace must admit the (\w+) Pod Security level", notes)
    assert (told[1] if told else "restricted") == level


@pytest.mark.level("restricted")
@pytest.mark.parametrize("placement", ["inline", "jobs"])
def test_the_default_values_run_in_a_restricted_namespace(unqueued: Space, placement: str) -> None:
    over = {"stages": {"placement": placement, "convert": {"skip": True}}}
    release = described(unqueued, over)
    release.install()
    run = Run(name="dpo", space=unqueued)
    run.ended()
    assert run.states["train"] == "done"
    assert "run proved" in release.test(60)


@pytest.mark.level("baseline")
def test_a_run_that_its_namespace_refuses_says_so_in_an_event(unqueued: Space) -> None:
    release = described(unqueued, {"network": {"profile": "ib-shared"}})
    assert "privileged" in release.install()
    reasons = ("get", "events", "--field-selector=reason=FailedCreate", "--output=name")
    until("an event tells", lambda: unqueued.kubectl.run(*reasons), seconds=30)
    told = unqueued.kubectl.run(*reasons[:3], "--output=jsonpath={.items[0].message}")
    assert 'violates PodSecurity "baseline' in told
    assert "IPC_LOCK" in told
