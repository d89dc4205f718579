"""The table of states: every row is reached from the objects that its controllers write."""

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import typer

from launchers.yaml_file import read_yaml
from scripts import cli
from scripts.helm import CHART
from scripts.observe.view import View
from scripts.why.command import EXITS
from scripts.why.reasons import CONDITIONS, State, explain, states
from tests.scripts.observe.planted import RUNNING, jobset, pod, suspended, view, waiting, workload
from tests.scripts.why.pods import MORE, SAID
from tests.scripts.why.queueing import OLD
from tests.scripts.why.states import STATES

WAYS = [*((id, *state) for id, state in STATES.items()), *MORE, *OLD]


@pytest.mark.parametrize("id, made, fact", WAYS, ids=[way[0] for way in WAYS])
def test_a_planted_state_is_reported_first_with_its_facts(
    id: str, made: Callable[[], View], fact: str
) -> None:
    found = explain(made())
    assert found[0].id == id, [each.id for each in found]
    assert fact in found[0].sentence
    place = re.search(r"\{(?!\")", found[0].remedy.replace("{gpu", ""))  # not of JSON
    assert found[0].remedy and place is None


def test_each_message_of_a_controller_chooses_its_remedy() -> None:
    found = [(explain(made())[0].remedy, word) for made, word in SAID]
    assert [(remedy, word) for remedy, word in found if word not in remedy] == []
    said = [remedy for state in states() for remedy in state.said.values()]
    own = [remedy.replace("{namespace}", "team") for remedy in said]
    assert {remedy for remedy, _ in found} == {*own} and all(each.endswith(".") for each in own)


def test_the_table_has_a_condition_and_a_case_for_each_row_and_no_more() -> None:
    ids = [state.id for state in states()]
    assert len(ids) == len(set(ids)) > 60
    assert set(ids) == set(CONDITIONS) == set(STATES)


@pytest.mark.parametrize("state", states(), ids=lambda state: str(state.id))
def test_a_row_is_one_sentence_an_action_and_an_exit_code(state: State) -> None:
    assert state.sentence.endswith(".") and state.kind in EXITS
    assert state.remedy.endswith(".") or state.remedy in ("{remedy}", "{next}")


def test_each_moment_between_installation_and_the_first_pod_is_known() -> None:
    """Also to `list`, which reads neither events nor the queue."""
    admitted = workload(holds=16)
    moments = {
        "queued": [view(suspended(), workloads=[workload()])],
        "pods-awaited": [
            view(suspended(), workloads=[admitted]),
            view(jobset(), workloads=[admitted]),
            view(jobset(queue=None)),
            view(jobset(), workloads=[admitted], pods=[pod(0, None), pod(1, None)]),
        ],
        "workload-missing": [view(suspended())],
    }
    for id, views in moments.items():
        assert {explain(each)[0].id for each in views} == {id}


def test_an_evicted_run_waits_for_its_queue_while_its_pods_end() -> None:
    leaving = {"deletionTimestamp": "2026-11-18T10:30:00Z", "deletionGracePeriodSeconds": 1}
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    for state in (RUNNING, killed, waiting("ErrImagePull"), waiting("ContainerCreating")):
        made = view(suspended(), workloads=[workload()], pods=[pod(0, state, metadata=leaving)])
        assert [each.id for each in explain(made)] == ["queued"]


def test_a_gang_of_two_of_which_none_has_joined_is_incomplete() -> None:
    awaited = '2026-11-18T10:00:00Z INFO rank=0 gang awaited missing="rank 1" of=2\n'
    made = view(jobset(), pods=[pod(0, RUNNING), pod(1, RUNNING)], log=awaited)
    assert explain(made)[0].id == "ranks-missing"
    begun = f"{awaited}2026-11-18T10:00:01Z INFO rank=0 gang started generation=a nodes=2\n"
    assert explain(view(jobset(), pods=made.snapshot.pods, log=begun))[0].id == "running"


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_stage_that_is_tried_again_says_what_failed(goes_on: bool) -> None:
    planted = STATES["preparing"][0]()
    log = '10:00:00Z WARNING rank=0 retry what=clone failures=4 pause=7.7 cause="no route"\n'
    log += "10:00:08Z INFO rank=0 clone done\n" * goes_on
    [found] = explain(View(replace(planted.snapshot, log=log), planted.files))
    assert ("it has failed 4 times (no route)." in found.sentence) is not goes_on
    assert (found.remedy == "Nothing to do.") is goes_on


COMMAND = re.compile(r"`((?:megatron-dpo|kubectl|helm) [^`]*)`|((?:megatron-dpo|kubectl|helm) )")
OTHERS = {
    "kubectl": {
        *("config", "create", "delete", "describe", "exec", "get"),
        *("label", "logs", "patch", "taint", "uncordon"),
    },
    "helm": {"test", "upgrade"},
}
"""Verbs of other programs that remedies name."""
OF_CLUSTER = {
    "clusterqueue",
    "namespace",
    "node",
    "nodes",
    "priorityclass",
    "workloadpriorityclasses",
    "-f",
}
"""Kinds that have no namespace; ``-f`` creates a flavor."""
KEY = re.compile(r"[a-z]\w*(?:\.[a-z]\w*)+")
NOT_A_VALUE = ("waitForPodsReady.timeout",)
"""Key of Kueue's own configuration."""


def remedies() -> dict[str, str]:
    return {id: explain(made())[0].remedy for id, (made, _) in STATES.items()}


def test_every_command_of_a_remedy_exists_with_its_options() -> None:
    verbs = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    seen = 0
    for id, remedy in remedies().items():
        for command, bare in COMMAND.findall(remedy):
            assert not bare, f"{id}: a command stands between backticks: {remedy}"
            program, verb, *words = shlex.split(command)
            seen += 1
            if program in OTHERS:
                assert verb in OTHERS[program], f"{id}: {command}"
                is_of_cluster = verb in ("config", "taint", "uncordon") or words[0] in OF_CLUSTER
                assert is_of_cluster or {"-n", "-A"} & {*words}, f"{id}: {command}"
            else:
                with verbs[verb].make_context(verb, words) as context:
                    assert context.command is verbs[verb], f"{id}: {command}"
    assert seen > 25


def test_every_command_of_a_remedy_names_a_place_that_is_not_the_kubeconfigs_own() -> None:
    chosen = frozenset({"context", "namespace"})
    options = {"megatron-dpo": "--context", "kubectl": "--context", "helm": "--kube-context"}
    seen = set()
    for id, (made, _) in STATES.items():
        found = made()
        found = replace(found, snapshot=replace(found.snapshot, chosen=chosen, context="a b"))
        for command, _ in COMMAND.findall(explain(found)[0].remedy):
            program, verb, *words = shlex.split(command)
            if (program, verb) in {("megatron-dpo", "plan"), ("kubectl", "config")}:
                assert "--context" not in words, f"{id}: {command}"
                continue
            assert words[words.index(options[program]) + 1] == "a b", f"{id}: {command}"
            assert program == "kubectl" or words.count("-n") == 1, f"{id}: {command}"
            seen.add(program)
    assert seen == set(options)


def test_every_key_of_the_values_that_a_remedy_names_exists() -> None:
    seen, values = set(), read_yaml(CHART / "values.yaml")
    for id, remedy in remedies().items():
        words = re.sub(r"`[^`]*`", "", remedy).split()
        for path in (word.strip("().,;:") for word in words):
            if not KEY.fullmatch(path) or path in NOT_A_VALUE:
                continue
            at: Any = values
            for name in path.split("."):
                assert isinstance(at, dict) and (name in at or at == {}), f"{id}: {path}"
                at = at.get(name, {})
            seen.add(path)
    assert {"kueue.queue", "workspace.existingClaim", "image.pullSecrets"} <= seen
