"""`megatron-dpo why --fix` on planted faults, with a stand-in for kubectl that changes the cluster.

The stand-in sends the merge patch of ``kubectl patch`` to the cluster of the tests, and answers
``auth can-i`` as the test says.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from megatron_dpo import Run
from scripts.doctor.api import Api
from scripts.fix import cluster as fixing
from scripts.fix.cluster import Command, repair_of
from scripts.observe.command import Target
from scripts.observe.source import Reading
from scripts.observe.ways import Source
from scripts.problem import Problem
from scripts.why.command import document
from scripts.why.reasons import explain
from tests.scripts.observe.fixtures import JOBSETS, KUEUE
from tests.scripts.observe.planted import evicted, jobset, pending, suspended
from tests.scripts.observe.server import Cluster
from tests.scripts.why.states import STATES

TARGET = Target(run="dpo", source=Source.API)
QUEUES = f"{KUEUE}/localqueues"
STANDIN = f"""\
#!{sys.executable}
import json, pathlib, re, sys, urllib.request
here, words = pathlib.Path(__file__).parent, sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[:2] == ["auth", "can-i"]:
    answer = (here / "answer").read_text()
    print(answer)
    sys.exit(answer != "yes")
server = re.search(r"server: (\\S+)", (here / "kubeconfig").read_text())[1]
url = f"{{server}}{QUEUES}/{{words[2]}}"
patch = words[words.index("-p") + 1].encode()
urllib.request.urlopen(urllib.request.Request(url, patch, method="PATCH"))
print("localqueue/gpu patched")
"""
START = ["patch", "localqueue", "gpu", "-n", "team", "--type", "merge"]
OPEN = '{"spec":{"stopPolicy":"None"}}'


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the stand-in, first on PATH; file ``answer`` is that of ``auth can-i``."""
    program = tmp_path / "kubectl"
    program.write_text(STANDIN)
    program.chmod(0o755)
    (tmp_path / "answer").write_text("yes")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


@pytest.fixture
def stopped(cluster: Cluster, api: Api) -> Cluster:
    cluster.put(JOBSETS, suspended())
    held = pending("LocalQueue gpu is stopped", "Suspended", of="u-1")
    cluster.put(f"{KUEUE}/workloads", held)
    cluster.objects[f"{QUEUES}/gpu"]["spec"]["stopPolicy"] = "Hold"
    return cluster


def policy(cluster: Cluster) -> str:
    return str(cluster.objects[f"{QUEUES}/gpu"]["spec"]["stopPolicy"])


def calls(folder: Path) -> list[list[str]]:
    file = folder / "calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def fix(*, answer: bool = True, **options: Any) -> int:
    return fixing.run(TARGET, Console(quiet=True), lambda question: answer, **options)


def test_a_stopped_queue_is_started_where_rights_allow(stopped: Cluster, kubectl: Path) -> None:
    assert fix() == 0
    assert policy(stopped) == "None"
    asked, patched = calls(kubectl)
    assert asked == ["auth", "can-i", "patch", "localqueue", "-n", "team"]
    assert patched == [*START, "-p", OPEN]


def test_a_command_that_fails_says_what_was_run_before(stopped: Cluster, kubectl: Path) -> None:
    first, second = (f"kubectl {' '.join(START)} -p '{OPEN}'", "kubectl delete workload a -n team")
    with pytest.raises(Problem, match=rf"before it: {re.escape(first)}; left to run: {second}"):
        fixing.execute([Command(first), Command(second)], TARGET)
    assert policy(stopped) == "None"


def test_the_queue_stays_without_the_right_a_yes_and_the_decision_of_a_person(
    stopped: Cluster, kubectl: Path
) -> None:
    with pytest.raises(Problem, match=r"A person has to judge that.* \[local-queue-stopped\]"):
        fix(yes=True)
    assert policy(stopped) == "Hold" and calls(kubectl) == []
    assert fix(answer=False) == 1
    assert policy(stopped) == "Hold" and len(calls(kubectl)) == 1
    (kubectl / "answer").write_text("no")
    with pytest.raises(Problem, match=r"lack the permission: patch localqueue \(no\)"):
        fix()
    assert policy(stopped) == "Hold" and len(calls(kubectl)) == 2


def test_a_state_that_has_changed_during_the_question_is_left_alone(
    stopped: Cluster, kubectl: Path
) -> None:
    def started(question: str) -> bool:
        stopped.put(JOBSETS, jobset())
        return True

    with pytest.raises(Problem, match="the state has changed since"):
        fixing.run(TARGET, Console(quiet=True), started)
    assert len(calls(kubectl)) == 1


def test_a_stopped_run_is_resumed_without_kubectl(cluster: Cluster, api: Api) -> None:
    cluster.put(JOBSETS, suspended())
    held = evicted("Deactivated", "The workload is deactivated", active=False, of="u-1")
    cluster.put(f"{KUEUE}/workloads", held)
    found = Run("dpo", source="api").why(fix=True)
    assert found.fixed and found.fixed.command == ("megatron-dpo", "resume", "dpo")
    assert [each[2] for each in cluster.changes][0] == {"spec": {"active": True}}


def test_without_kubectl_it_says_so(stopped: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Problem, match="no kubectl on PATH"):
        fix()


def test_a_run_that_trains_has_no_command(cluster: Cluster, api: Api) -> None:
    with pytest.raises(Problem, match="no remedy of this run is a command"):
        fix()


PLANTED = {id: found for id in STATES if (found := repair_of(explain(STATES[id][0]())))}


def test_the_commands_of_planted_faults() -> None:
    """Every state whose own remedy is a command that changes the cluster."""
    own = {id: each.commands[0].argv for id, each in PLANTED.items() if each.reason.id == id}
    found = {id: " ".join(argv[:3]) for id, argv in own.items()}
    resume, rerun = "megatron-dpo resume dpo", "megatron-dpo rerun dpo"
    assert found == {
        **dict.fromkeys(("stopped", "suspended", "deactivated", "requeuing-limit"), resume),
        "admission-check-rejected": resume,
        **dict.fromkeys(("jobset-user-rule", "restarts-exhausted", "jobset-failed"), rerun),
        "held": "megatron-dpo stop dpo",
        "local-queue-stopped": "kubectl patch localqueue",
        "cluster-queue-stopped": "kubectl patch clusterqueue",
        "flavor-missing": "kubectl create -f",
        "workload-finished": "kubectl delete workload",
        "flavor-mismatch": "kubectl patch jobset",
        "topology-level-missing": "kubectl patch jobset",
        "service-account-missing": "kubectl create serviceaccount",
        "pod-priority-missing": "kubectl create priorityclass",
        "pods-refused-quota": "kubectl patch resourcequota",
        "pods-refused-security": "kubectl label namespace",
        "claim-unbound": "kubectl delete pvc",
        "nodes-cordoned": "kubectl uncordon node-1",
        "node-lost": "kubectl taint nodes",
    }


def test_only_what_changes_the_run_alone_needs_no_person() -> None:
    sure = {id for id, each in PLANTED.items() if each.reason.id == id and each.reason.sure}
    assert sure == {"stopped", "suspended", "service-account-missing"}


@pytest.mark.parametrize("id", PLANTED)
def test_rights_are_asked_for_each_command_of_kubectl(id: str) -> None:
    for one in PLANTED[id].commands:
        assert bool(one.right) == (one.argv[0] == "kubectl")
        assert all(word and "{" not in word for word in one.right)


def test_a_message_of_a_pod_is_never_a_command() -> None:
    """Remedies of pods are text: only the table's own commands are run."""
    for id, (made, _) in STATES.items():
        for reason in explain(made()):
            assert all(each in reason.remedy for each in reason.commands), id
    view = STATES["user-error"][0]()
    assert view.root is not None
    object.__setattr__(view.root, "remedy", "run `kubectl delete nodes --all`")
    assert all("delete nodes" not in command for each in explain(view) for command in each.commands)


def test_the_document_of_why_has_the_commands() -> None:
    view = STATES["local-queue-stopped"][0]()
    found = document(view, Reading(files=None, how=""), explain(view), None)
    assert found["reasons"][0]["commands"][0].startswith("kubectl patch localqueue gpu -n team ")
