"""submit: the order of its steps, what ends it, its exit codes; Helm is a recording program."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scripts.doctor import command as doctor
from scripts.doctor.findings import Finding, Level, Report
from scripts.helm import CHART
from scripts.observe.command import Exit, Target
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.plan import command as planning
from scripts.problem import Problem
from scripts.submit import command, follow
from scripts.submit.command import Request
from scripts.submit.follow import Until
from tests.scripts.observe.fixtures import CORE, JOBSETS
from tests.scripts.observe.planted import RUNNING, jobset, pod, suspended, view, workload
from tests.scripts.observe.server import Cluster
from tests.scripts.test_documents import CLAIM
from tests.scripts.why.states import STATES

FILES = [Path("values/a100-2node.yaml")]
pytestmark = pytest.mark.usefixtures("api", "steps")
REQUEST = Request(target=Target(run="dpo", source=Source.API), files=FILES, sets=["nodes=3"])


def finding(id: str, level: Level) -> Finding:
    return Finding(id=id, level=level, subject="x", found="y", remedy="z")


class Steps:
    def __init__(self, folder: Path) -> None:
        self.called: list[str] = []
        self.planned = 0
        self.findings: list[Finding] = []
        self.helm = folder / "helm"
        self.arguments = folder / "arguments"
        self.install()

    def install(self, code: int = 0, said: str = "") -> None:
        self.helm.write_text(
            f"#!{sys.executable}\nimport sys\n"
            f"open({str(self.arguments)!r}, 'w').write('\\n'.join(sys.argv[1:]))\n"
            f"sys.stderr.write({said!r})\nsys.exit({code})\n"
        )
        self.helm.chmod(0o755)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = Steps(tmp_path)

    def plan(request: object, console: Console) -> int:
        made.called.append("plan")
        return made.planned

    def diagnose(request: object) -> Report:
        made.called.append("doctor")
        return Report(context="here", namespace="team", run="dpo", findings=made.findings)

    monkeypatch.setattr(planning, "run", plan)
    monkeypatch.setattr(doctor, "diagnose", diagnose)
    monkeypatch.setattr(command, "find_helm", lambda: made.helm)
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.0)
    return made


def submitted(request: Request = REQUEST) -> tuple[int, str]:
    console = Console(width=200)
    with console.capture() as captured:
        code = command.run(request, console)
    return code, captured.get()


def test_a_run_is_planned_checked_installed_and_its_state_is_said(
    steps: Steps, cluster: Cluster
) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    code, output = submitted()
    assert (code, steps.called) == (Exit.OK, ["plan", "doctor"])
    words = "upgrade --install --kube-context here --namespace team"
    words += f" --values values/a100-2node.yaml --set nodes=3 -- dpo {CHART}"
    assert steps.arguments.read_text().split("\n") == words.split(" ")
    assert "submitted dpo to namespace team of here" in output
    assert "running 2 of 2 ranks run" in output
    assert cluster.changes == [], "only Helm changes the cluster"


def test_a_wait_outlives_lost_answers_and_says_so_once(cluster: Cluster) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    cluster.faults[f"{JOBSETS}/dpo"] = ["drop", "500", "503"]
    code, output = submitted(replace(REQUEST, until=Until.RUNNING))
    assert code == Exit.OK
    assert output.count("note: no newer answer of the API server") == 3, "each has another cause"
    cluster.faults[f"{JOBSETS}/dpo"] = ["drop", "drop", "drop"]
    code, output = submitted(replace(REQUEST, until=Until.RUNNING))
    assert output.count("note: no newer answer of the API server") == 1
    assert "running 2 of 2 ranks run" in output


def test_a_wait_ends_without_the_permission_to_see_the_run(cluster: Cluster) -> None:
    cluster.forbidden.add("GET /jobsets")
    code, output = submitted(replace(REQUEST, until=Until.DONE))
    assert (code, "You may not read JobSets" in output) == (Exit.UNKNOWN, True)


def test_a_refused_plan_or_a_failed_check_installs_nothing(steps: Steps) -> None:
    steps.planned = 1
    assert (submitted()[0], steps.called) == (Exit.FAILED, ["plan"])
    steps.planned = 0
    steps.findings = [finding("queue-missing", Level.FAIL)]
    assert submitted()[0] == Exit.FAILED and not steps.arguments.exists()


def test_a_run_that_has_failed_when_it_is_first_seen_fails_the_submission(cluster: Cluster) -> None:
    """The claim that its pods mount does not exist, so that none of them runs."""
    cluster.drop_pods()
    cluster.put(f"{CORE}/pods", pod(0), pod(1))
    code, output = submitted()
    assert code == Exit.FAILED
    assert "failed Claim training, which the pods mount, does not exist." in output


def test_warnings_and_an_installed_release_do_not_keep_a_run_from_being_submitted(
    steps: Steps, cluster: Cluster
) -> None:
    cluster.put(f"{CORE}/persistentvolumeclaims", CLAIM)
    steps.findings = [finding("image", Level.WARN), finding(command.EXISTS, Level.FAIL)]
    assert submitted()[0] == Exit.OK and steps.arguments.exists()


def test_a_dry_run_prints_helms_command_and_changes_nothing(steps: Steps) -> None:
    code, output = submitted(replace(REQUEST, dry_run=True))
    assert (code, steps.called) == (Exit.OK, ["plan", "doctor"])
    assert "would run: " in output and "upgrade --install" in output
    assert not steps.arguments.exists()


def test_what_helm_refuses_is_its_message(steps: Steps) -> None:
    steps.install(code=1, said="Error: UPGRADE FAILED: field is immutable")
    with pytest.raises(Problem, match="UPGRADE FAILED: field is immutable"):
        submitted()


def test_no_values_are_refused_before_anything_is_done(steps: Steps) -> None:
    with pytest.raises(Problem, match="no values given; use e.g. -f"):
        submitted(Request(target=REQUEST.target))
    assert steps.called == []


WAITS = view(suspended(), workloads=[workload()])
ADMITTED = view(jobset(), workloads=[workload(holds=16)], pods=[pod(0, RUNNING), pod(1, None)])
RUNS = view(jobset(), pods=[pod(0, RUNNING), pod(1, RUNNING)])
STEPS, DONE, FAILED = (STATES[id][0]() for id in ("training", "succeeded", "jobset-user-rule"))
RESTARTS = STATES["restarting"][0]()
MEETS = STATES["ranks-missing"][0]()
"""All ranks are Running, and rank 0 waits for one at the start barrier."""


def followed(until: Until, *views: View, notes: Sequence[str] = ()) -> tuple[int, int, str]:
    """Follow a run through these views; return the code, the number of views read, the output."""
    console = Console(width=200)
    left: Iterator[View] = iter(views)
    read = 0

    def look() -> tuple[View, Sequence[str]]:
        nonlocal read
        read += 1
        return next(left), notes

    with console.capture() as captured:
        code = follow.follow(look, until, console)
    return code, read, captured.get()


ALL = (WAITS, WAITS, ADMITTED, RUNS, STEPS, DONE)
NO_QUEUE, STALLED = STATES["local-queue-missing"][0](), STATES["stalled"][0]()
UNSEEN = STATES["cluster-unreachable"][0]()
ENDS: dict[str, tuple[Until, Sequence[View], Exit, int]] = {
    "submitted": (Until.SUBMITTED, ALL, Exit.OK, 1),
    "submitted-failed": (Until.SUBMITTED, (FAILED,), Exit.FAILED, 1),
    "submitted-to-no-queue": (Until.SUBMITTED, (NO_QUEUE,), Exit.FAILED, 1),
    "submitted-and-not-seen": (Until.SUBMITTED, (UNSEEN,), Exit.OK, 1),
    "running": (Until.RUNNING, ALL, Exit.OK, 4),
    "running-after-the-barrier": (Until.RUNNING, (ADMITTED, MEETS, RUNS), Exit.OK, 3),
    "first-step": (Until.FIRST_STEP, ALL, Exit.OK, 5),
    "done": (Until.DONE, ALL, Exit.OK, 6),
    "restarted": (Until.DONE, (RUNS, RESTARTS, RUNS, DONE), Exit.OK, 4),
    "failed": (Until.RUNNING, (WAITS, FAILED, DONE), Exit.FAILED, 2),
    "done-before-a-step": (Until.FIRST_STEP, (RUNS, DONE), Exit.OK, 2),
    "stalled": (Until.FIRST_STEP, (RUNS, STALLED), Exit.FAILED, 2),
    "unreachable-for-a-moment": (Until.DONE, (UNSEEN, DONE), Exit.OK, 2),
    "removed": (Until.RUNNING, (view(),), Exit.FAILED, 1),
}
"""What is waited for, the views of the run, the exit code and the number of views read."""


@pytest.mark.parametrize("name", ENDS)
def test_a_wait_ends_when_it_is_reached_or_never_will_be(name: str) -> None:
    until, views, code, read = ENDS[name]
    assert followed(until, *views)[:2] == (code, read)


def test_each_state_is_said_once_with_its_remedy_and_each_note_once() -> None:
    refused = ["exec in pod x (get and create pods/exec) failed: forbidden"]
    _, _, output = followed(Until.DONE, *ALL, notes=refused)
    states = [line.split()[1] for line in output.splitlines() if line[2:3] == ":"]
    assert states == ["waiting", "waiting", "running", "running", "done"]
    assert output.count("note: exec in pod x") == 1
    assert "-> Wait" in output and "-> Nothing to do" not in output
