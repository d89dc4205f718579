"""stop, resume, rerun: what each says and sends, and what it refuses."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scripts.control import actions, command
from scripts.control.actions import Action
from scripts.doctor.api import Answer, Api
from scripts.observe.command import Target
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.problem import Problem, UnknownState
from scripts.why.holding import STOPPED_BY
from scripts.why.reasons import explain
from tests.scripts.doctor.healthy import release
from tests.scripts.observe import planted
from tests.scripts.observe.fixtures import JOBSETS, KUEUE
from tests.scripts.observe.planted import Object, condition, jobset, pod, suspended, view, workload
from tests.scripts.observe.server import Cluster

BOTH = [pod(0, planted.RUNNING), pod(1, planted.RUNNING)]
TARGET = Target(run="dpo", source=Source.API)
ENDED = jobset(condition("Completed", "True", "AllJobsCompleted"), terminalState="Completed")
STOPPED = view(suspended(), workloads=[planted.evicted("Deactivated", "x", active=False)])
WORKLOAD = f"{KUEUE}/workloads/jobset-dpo-1"
QUIET = Console(quiet=True)


def sent(action: Action) -> list[tuple[str, str]]:
    return [(each.method, each.path.rsplit("/", 2)[-2]) for each in action.changes]


def yes(question: str) -> bool:
    return True


def failed() -> Object:
    return jobset(condition("Failed", "True", "x"), terminalState="Failed")


def test_stopping_deactivates_a_workload_and_notes_who_or_suspends_a_run_without_a_queue() -> None:
    made = actions.stop(view(jobset(), workloads=[workload()], pods=BOTH), "ann")
    assert sent(made) == [("PATCH", "workloads"), ("PATCH", "jobsets")]
    assert made.changes[0].content == {"spec": {"active": False}}
    assert made.changes[1].content == {"metadata": {"annotations": {STOPPED_BY: "ann"}}}
    says = ("SIGTERM and up to 300 s to save", "its quota becomes free")
    assert all(each in made.says for each in says)
    made = actions.stop(view(jobset(queue=None), pods=BOTH), "ann")
    assert sent(made) == [("PATCH", "jobsets")]
    assert made.changes[0].content["spec"] == {"suspend": True}


@pytest.mark.parametrize(
    "run",
    [view(ENDED), STOPPED, view(suspended(queue=None))],
    ids=["ended", "stopped", "suspended"],
)
def test_there_may_be_nothing_to_stop(run: View) -> None:
    assert actions.stop(run, "ann").changes == ()


def test_a_run_that_is_not_there_or_has_no_workload_is_refused() -> None:
    with pytest.raises(Problem, match="no run dpo in namespace team"):
        actions.stop(view(), "ann")
    with pytest.raises(Problem, match="helm uninstall dpo -n team --cascade foreground --wait"):
        actions.stop(view(jobset(), pods=BOTH), "ann")


def test_a_name_that_is_misspelt_is_met_with_the_nearest(api: Api) -> None:
    """Of the namespace's runs, in each verb that needs one."""
    target = replace(TARGET, run="dpp")
    for verb in (command.stop, command.resume, command.rerun):
        with pytest.raises(Problem, match=r"no run dpp in namespace team .* Use dpo;"):
            verb(target, QUIET, yes)


def test_resuming_undoes_what_stopped_the_run() -> None:
    assert [each.content for each in actions.resume(STOPPED).changes] == [
        {"spec": {"active": True}},
        {"metadata": {"annotations": {STOPPED_BY: None}}},
    ]
    bare = actions.resume(view(suspended(queue=None)))
    assert bare.changes[0].content["spec"] == {"suspend": False}
    assert actions.resume(view(jobset(), workloads=[workload()], pods=BOTH)).changes == ()
    with pytest.raises(Problem, match="megatron-dpo rerun dpo"):
        actions.resume(view(ENDED))


def test_rerun_creates_the_jobset_of_helms_record_not_what_kueue_made_of_it() -> None:
    live = failed()
    planted.template_of(live)["spec"]["nodeSelector"] = {"flavor": "a100"}
    live["metadata"]["annotations"] |= {STOPPED_BY: "ann", "meta.helm.sh/release-name": "dpo"}
    made = actions.rerun(view(live), release())
    assert [each.method for each in made.changes] == ["DELETE", "POST"]
    assert made.changes[0].content["preconditions"] == {"uid": live["metadata"]["uid"]}
    created = made.changes[1].content
    assert created["spec"] == release().jobset.manifest["spec"]
    annotations = created["metadata"]["annotations"]
    names = {"meta.helm.sh/release-name": "dpo", "meta.helm.sh/release-namespace": "team"}
    assert names.items() <= annotations.items() and STOPPED_BY not in annotations
    assert [each.method for each in actions.rerun(view(), release()).changes] == ["POST"]
    with pytest.raises(Problem, match="has not ended"):
        actions.rerun(view(jobset(), pods=BOTH), release())


@pytest.mark.parametrize("name", ["checksum/spec", "checksum/recipe"])
def test_rerun_says_when_helms_record_is_not_what_ran(name: str) -> None:
    """As after an upgrade of an ended run that Helm has recorded."""
    live = failed()
    assert "with the values of its installation" in actions.rerun(view(live), release()).says
    where = live if name == "checksum/spec" else planted.template_of(live)
    where["metadata"]["annotations"][name] = "0" * 64
    said = actions.rerun(view(live), release()).says
    assert "values that differ from those it ran with (`helm history dpo`)" in said


def test_a_stop_is_asked_for_sent_and_seen(api: Api, cluster: Cluster) -> None:
    asked: list[str] = []

    def no(text: str) -> bool:
        asked.append(text)
        return False

    assert command.stop(TARGET, QUIET, no) == 1
    assert asked and cluster.changes == []
    assert command.stop(TARGET, QUIET, yes) == 0
    assert cluster.objects[WORKLOAD]["spec"]["active"] is False
    assert STOPPED_BY in cluster.objects[f"{JOBSETS}/dpo"]["metadata"]["annotations"]
    held = cluster.objects[WORKLOAD]
    (first, *_) = explain(view(cluster.objects[f"{JOBSETS}/dpo"], workloads=[held]))
    assert first.id == "stopped"
    assert command.resume(TARGET, QUIET, yes) == 0
    assert cluster.objects[WORKLOAD]["spec"]["active"] is True
    assert STOPPED_BY not in cluster.objects[f"{JOBSETS}/dpo"]["metadata"]["annotations"]


def test_without_the_permission_another_way_is_named(api: Api, cluster: Cluster) -> None:
    cluster.forbidden.add("PATCH /workloads")
    with pytest.raises(Problem, match="lack the permission: patch workloads; `helm uninstall dpo"):
        command.stop(TARGET, QUIET, yes)


@pytest.mark.parametrize("fault", ["500", "429", "cut"])
@pytest.mark.parametrize("lost", ["/workloads/jobset-dpo-1", "/jobsets/dpo"])
def test_a_lost_answer_is_no_refusal_and_what_was_done_before_is_said(
    fault: str, lost: str, api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patch(self: Api, path: str, content: Object) -> Answer:
        return Answer(status=int(fault) if fault != "cut" else 0) if path.endswith(lost) else done

    done = Answer(status=200)
    monkeypatch.setattr(Api, "patch", patch)
    with pytest.raises(UnknownState, match="whether it was done is not known") as unknown:
        command.stop(TARGET, QUIET, yes)
    assert str(unknown.value).startswith("patch workloads: done; ") == lost.startswith("/jobsets")


def test_a_rerun_waits_until_the_old_jobset_is_gone(
    api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster.put(JOBSETS, failed())
    monkeypatch.setattr(command, "installed", lambda api, run: release())
    assert command.rerun(replace(TARGET), QUIET, yes) == 0
    assert [method for method, _, _ in cluster.changes] == ["DELETE", "POST"]
    assert "status" not in cluster.objects[f"{JOBSETS}/dpo"]


@pytest.mark.parametrize("verb", [command.stop, command.resume], ids=["stop", "resume"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("500", "no answer of the API server"),
        ("401", "the API server does not accept the user"),
        ("405", "the API server refused the request"),
        ("", "you lack the permission"),
    ],
)
def test_a_workload_that_is_not_read_is_not_taken_for_none(
    verb: Callable[..., int], fault: str, said: str, api: Api, cluster: Cluster
) -> None:
    """`resume` would report that it was not stopped, and `stop` would propose to uninstall it."""
    if fault:
        cluster.faults["/workloads"] = [fault]
    else:
        cluster.forbidden.add("GET /workloads")
    with pytest.raises(UnknownState, match=f"{said}: list workloads"):
        verb(TARGET, QUIET, yes)
    assert cluster.changes == []


def test_a_user_without_a_name_stops_a_run(
    api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs under a number of its own."""

    def nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert command.stop(TARGET, QUIET, yes) == 0
    note = cluster.objects[f"{JOBSETS}/dpo"]["metadata"]["annotations"][STOPPED_BY]
    assert note == f"user {os.getuid()}"
