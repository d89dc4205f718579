"""Wrong input about a run, and damaged files: each is reported, and the rest is shown."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from launchers.config.recipe import parse
from launchers.gang.protocol import shared_digest
from launchers.storage import checkpoint
from scripts.doctor.api import Api
from scripts.logs import command as logs
from scripts.observe.command import Target, notes, observe
from scripts.observe.ways import Source
from scripts.problem import Problem
from scripts.status import listing, screen
from scripts.status.summary import summarise
from scripts.why.reasons import explain
from tests.scripts.calling import Call
from tests.scripts.doctor.healthy import release
from tests.scripts.kubeconfig import select, write
from tests.scripts.observe.fixtures import CORE, JOBSETS, at
from tests.scripts.observe.planted import RUNNING, condition, container_of, jobset, pod, template_of
from tests.scripts.observe.server import Cluster
from tests.scripts.observe.test_workspace import make_checkpoint

INSTALLED = {
    "metadata": {"name": "dpo-launchers"},
    "data": dict(release().jobset.config_maps["dpo-launchers"]),
}


def reading_of(api: Api, **target: Any) -> tuple[str, list[str]]:
    """Return the remedy of the first reason, and the notes."""
    view, reading = observe(Target(run="dpo", **target), api)
    return explain(view)[0].remedy, notes(view, reading)


def test_a_run_that_is_in_another_namespace_is_found_there(api: Api, cluster: Cluster) -> None:
    moved = cluster.objects.pop(f"{JOBSETS}/dpo")
    moved["metadata"]["namespace"] = "vision"
    cluster.put(JOBSETS.replace("team", "vision"), moved)
    remedy, lacks = reading_of(api)
    see = "`megatron-dpo why dpo -n vision`"
    assert remedy.startswith(f"Namespace vision has a run of this name ({see}); --namespace")
    assert lacks == []
    cluster.forbidden.add("GET /v1alpha2/jobsets")
    assert reading_of(api)[1] == [], "a right that is not needed"


def test_of_two_runs_of_one_name_that_of_the_namespace_is_read(api: Api, cluster: Cluster) -> None:
    other = jobset()
    other["metadata"] |= {"namespace": "vision", "uid": "u-2"}
    other["spec"]["failurePolicy"]["maxRestarts"] = 77
    cluster.put(JOBSETS.replace("team", "vision"), other)
    view, _ = observe(Target(run="dpo"), api)
    assert (view.namespace, view.workload["metadata"]["name"]) == ("team", "jobset-dpo-1")
    assert view.max_restarts != 77
    with Console(width=120).capture():
        lines = listing.snapshots(api)
    assert [each.run for each in lines] == ["dpo"]


@pytest.mark.usefixtures("api")
def test_a_place_that_was_chosen_stands_in_the_commands_of_a_remedy(cluster: Cluster) -> None:
    """`here` with namespace `team` is what the kubeconfig selects."""
    made = jobset(condition("Failed", "True", "x"), terminalState="Failed")
    made["metadata"]["namespace"] = "vision"
    for space in ("team", "vision"):
        cluster.put(JOBSETS.replace("team", space), made)

    def command(namespace: str | None, context: str | None) -> str:
        place: Any = {"namespace": namespace, "context": context, "source": Source.API}
        return reading_of(Target(run="dpo", **place).connect(), **place)[0].split("`")[1]

    assert command(None, None) == command("team", "here") == "megatron-dpo logs dpo"
    assert command("vision", None) == "megatron-dpo logs dpo -n vision"
    assert command("vision", "other") == "megatron-dpo logs dpo -n vision --context other"


def test_a_run_of_an_older_chart_is_shown_without_its_files(
    api: Api, cluster: Cluster, workspace: Path
) -> None:
    """Its pods do not say where the workspace is."""
    old = at(jobset(), workspace)
    container_of(old)["env"] = [{"name": "WORKSPACE", "value": str(workspace)}]
    cluster.put(JOBSETS, old)
    view, reading = observe(Target(run="dpo"), api)
    assert view.is_running and reading.files is None
    assert any("does not say where its workspace is" in each for each in reading.notes)


OLD_RECIPE = {"recipe": "0" * 64}


@pytest.fixture
def started(cluster: Cluster, workspace: Path) -> Path:
    """The run has started with the installed recipe, and has a checkpoint."""
    home = workspace / "runs" / "dpo"
    known = parse(yaml.safe_load(INSTALLED["data"]["recipe.yaml"]))
    launcher = template_of(jobset())["metadata"]["annotations"]["checksum/launchers"]
    progress = {"state": "running", "digest": shared_digest(launcher, known)}
    (home / "progress.json").write_text(json.dumps(progress))
    (home / "inputs.json").write_text(json.dumps({"recipe": known.identity}))
    make_checkpoint(home, 8)
    cluster.put(f"{CORE}/configmaps", copy.deepcopy(INSTALLED))
    return home


def train_another_recipe(home: Path) -> None:
    """Change a run's inputs and the seal of its checkpoint, which has them."""
    (home / "inputs.json").write_text(json.dumps(OLD_RECIPE))
    (saved,) = (home / "checkpoints").iterdir()
    checkpoint.seal(saved, 8)


def test_checkpoints_of_another_recipe_than_the_installed_one_are_noted(
    api: Api, started: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after an installation of other values under the same name."""
    train_another_recipe(started)
    (note,) = reading_of(api)[1]
    assert "the checkpoints are of another recipe" in note and "(run-changed)" in note
    folder = started / "attempts" / "1"
    folder.mkdir(parents=True)
    (folder / "node-0.log").write_text("loss 0.6\n")
    assert logs.run(Target(run="dpo"), logs.Selection(attempt=1)) == 0
    assert note in capsys.readouterr().err
    (started / "checkpoints" / "checkpoint-8" / "COMPLETE.json").unlink()
    assert reading_of(api)[1] == [], "without a checkpoint the start is not refused"


def test_a_config_map_that_was_replaced_is_noted(api: Api, cluster: Cluster, started: Path) -> None:
    held = cluster.objects[f"{CORE}/configmaps/dpo-launchers"]
    held["data"]["recipe.yaml"] = held["data"]["recipe.yaml"].replace("rlhf_type", "rlhf_kind")
    said = reading_of(api)[1]
    assert said[0].startswith("ConfigMap dpo-launchers was replaced after the installation")
    held["data"]["recipe.yaml"] = "{"
    assert "ConfigMap dpo-launchers holds no recipe" in reading_of(api)[1]


@pytest.mark.parametrize(
    ("denied", "permission"),
    [
        ("/batch/v1/", "list jobs"),
        ("/pods", "list pods"),
        ("/workloads", "list workloads"),
        ("/localqueues", "get localqueues"),
        ("/persistentvolumeclaims", "get persistentvolumeclaims"),
        ("/events", "list events"),
        ("/configmaps", "get configmaps"),
    ],
)
def test_each_missing_permission_is_named_and_the_rest_is_shown(
    denied: str, permission: str, api: Api, cluster: Cluster, started: Path, call: Call
) -> None:
    cluster.forbidden.add(f"GET {denied}")
    view, reading = observe(Target(run="dpo", workspace=started.parents[1]), api)
    assert notes(view, reading) == [f"you lack the permission: {permission}"]
    assert view.nodes == 2 and reading.files and reading.files.newest
    assert explain(view)[0].id not in ("no-permission", "run-not-found")
    if permission in ("list pods", "list workloads"):
        ended = call("list", "--json")
        assert (ended.code, [each["run"] for each in ended.document["runs"]]) == (0, ["dpo"])
        assert f"you lack the permission: {permission}" in ended.document["notes"]


def test_clocks_that_differ_and_torn_files_are_noted(
    api: Api, cluster: Cluster, workspace: Path, call: Call
) -> None:
    home = workspace / "runs" / "dpo"
    (home / "metrics.jsonl").write_text('{"step": 1, "total"')
    (home / "progress.json").write_text('{"state": ')
    cluster.date = "Thu, 01 Jan 1970 01:00:00 GMT"
    view, reading = observe(Target(run="dpo", workspace=workspace), api)
    said = notes(view, reading)
    assert "metrics.jsonl is torn; the rest is shown" in said
    assert "progress.json is torn; the rest is shown" in said
    assert any(each.startswith("the clock of the pods is +") for each in said)
    for each in (said, call("list", "--json").document["notes"]):
        assert sum(note.startswith("this machine's clock is +") for note in each) == 1


@pytest.mark.parametrize("verb", ["status", "why", "logs", "list"])
@pytest.mark.parametrize("words", [("--context", "gone"), ()], ids=["option", "current"])
def test_a_context_that_is_gone_is_named_with_those_that_there_are(
    verb: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    file = write(tmp_path, "http://127.0.0.1:9")
    if not words:
        file.write_text(file.read_text().replace("current-context: here", "current-context: gone"))
    select(file, monkeypatch)
    code, out, error = call(verb, *() if verb == "list" else ("dpo",), *words)
    assert code == 4
    said = " ".join((out + error).split())
    assert said.lower().count("no cluster was asked: ") == 1 and "gone" in said
    assert ("here, other" in said) is bool(words)
    assert error.count("\n") == (verb == "logs")


NO_NAMES = ["", ".", "..", "../pods/dpo", "a/b", "x" * 300, "Ünï", "dpo\n", "d o", "a..b", "DPO"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_not_a_name_is_a_wrong_use_and_reaches_neither_api_nor_disk(
    name: str, api: Api, cluster: Cluster, call: Call
) -> None:
    """A name becomes a part of paths: `stop ../pods/dpo` would change a pod."""
    for words in (
        *((verb, "--", name) for verb in ("status", "why", "logs", "stop", "resume", "rerun")),
        *(("status", "dpo", option, name) for option in ("--namespace",) if name),
        *(("clean", "--through", name),) * bool(name),
        ("clean", "--yes", "--", "dpo", name),
        *((verb, "--run", name) for verb in ("plan", "submit", "local") if name),
    ):
        ended = call(*words)
        assert ended.code == 2 and "Invalid value" in ended.err, words
    for verb in ("report", "bundle")[: 1 if "/" in name else 2]:  # a bundle takes folders, too
        for source in ("auto", "pod"):
            ended = call(verb, "--source", source, "--", name)
            is_long = source == "auto" and len(name) > 255  # it is looked for as a path
            assert ended.code == (2 if is_long else 1) and ended.err.startswith("error: ")
    assert cluster.asked == []


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"state": 3, "training": [], "stages": "x", "phases": 7, "attempt": "x"}',
        '{"state": "running", "stage": "train", "stages": {"train": 4}, "phases": {"gang": "x"}, '
        '"training": {"step": "a", "eta_seconds": "x", "held_out": {"last": 3}}}',
    ],
)
def test_parts_of_another_type_are_left_out_and_named(
    content: str, api: Api, started: Path
) -> None:
    (started / "progress.json").write_text(content)
    folder = started / "attempts" / "1"
    folder.mkdir(parents=True)
    (folder / "start.json").write_text("[]")
    (folder / "termination-0.json").write_text('{"code": 1, "rank": "x", "cause": 7}')
    (folder / "preflight-0.json").write_text('{"findings": [3]}')
    view, reading = observe(Target(run="dpo", workspace=started.parents[1]), api)
    assert "progress.json is torn; the rest is shown" in notes(view, reading)
    assert explain(view)
    console = Console(width=20)
    with console.capture() as captured:
        screen.show(summarise(view), console, reading.how, notes(view, reading))
    assert all(len(line) <= 20 for line in captured.get().splitlines())


@pytest.mark.usefixtures("api")
def test_a_list_says_which_answer_was_lost_and_which_files_were_not_read(
    cluster: Cluster, call: Call
) -> None:
    for rank in (0, 1):
        made = pod(rank, RUNNING)
        made["metadata"]["labels"]["app.kubernetes.io/part-of"] = "megatron-dpo"
        cluster.put(f"{CORE}/pods", made)
    cluster.faults["/workloads"] = ["500"]
    cluster.forbidden.add("GET /exec")
    notes = call("list", "--json").document["notes"]
    assert any(each.startswith("no answer of the API server (list workloads: ") for each in notes)
    assert any("not all files of dpo were read: " in each and "pods/exec" in each for each in notes)


def test_logs_without_the_right_to_list_pods_name_it(
    api: Api, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.forbidden.add("GET /pods")
    with pytest.raises(Problem, match="you lack the permission: list pods"):
        logs.run(Target(run="dpo"), logs.Selection())
    assert "no pod of rank 0 has a log" not in capsys.readouterr().err
