"""The verbs about a run, on a real cluster: submit to rerun, and what a user of few rights sees."""

import base64
import tarfile
from pathlib import Path
from typing import Any

import pytest

from launchers.metrics import rows
from launchers.metrics.rows import Row
from scripts.observe.command import Exit
from tests.e2e import queues, standin
from tests.e2e.measured import measured
from tests.e2e.merge import merge
from tests.e2e.rights import member
from tests.e2e.runs import Run
from tests.e2e.see import explained, megatron_dpo, submit
from tests.e2e.space import Space
from tests.e2e.until import until

ONE_GANG = {"nvidia.com/gpu": "16"}
ONE_NODE = {
    "nodes": 1,
    "kueue": {"topology": {"mode": "none", "key": ""}},
    "recipe": {"args": {"pipeline_model_parallel_size": 1}},
}


@pytest.mark.level("baseline")
def test_a_run_is_submitted_seen_stopped_resumed_and_ends(unqueued: Space) -> None:
    """At the Pod Security level `baseline`, which the reader pod has to meet, too."""
    queues.make(unqueued)
    tcp = {"network": {"profile": "tcp", "resourceName": ""}}
    dry = submit(unqueued, "dpo", "--dry-run", over=tcp)
    assert dry.code == Exit.OK and "would run: " in dry.out, dry
    assert unqueued.kubectl.items("jobsets") == []
    made = submit(unqueued, "dpo", "--wait", over=tcp)
    assert made.code == Exit.OK, made
    run = Run(name="dpo", space=unqueued)
    run.training()
    _seen_in_each_way(run)
    _logged(run)
    _reported(run, "exec", steps=100)
    _cleaned(run)
    stopped = megatron_dpo(unqueued, "stop", "dpo", "--yes")
    assert stopped.code == Exit.OK and "SIGTERM" in stopped.out, stopped
    explained(unqueued, "dpo", "stopped", Exit.WAITING)
    until("its pods are gone", lambda: run.pods() == [], seconds=60)
    resumed = megatron_dpo(unqueued, "resume", "dpo", "--yes")
    assert resumed.code == Exit.OK, resumed
    run.training(attempt=2)
    standin.finish(run)
    explained(unqueued, "dpo", "succeeded", Exit.OK)
    _reported(run, "pod", steps=6_000)
    old = megatron_dpo(unqueued, "logs", "dpo", "--attempt", "1", "--rank", "1")
    assert old.code == 0 and "rank 1 | " in old.out, old


def _seen_in_each_way(run: Run) -> None:
    space = run.space
    for source, how in (
        ("api", "not read; what follows is from the API alone"),
        ("exec", "exec in pod dpo-node-0-0-"),
        ("pod", "reader pod dpo-reader-"),
    ):
        with measured(f"megatron-dpo status --source {source}"):
            said = megatron_dpo(space, "status", "dpo", "--json", "--source", source)
        assert said.code == Exit.OK, said
        found = said.document
        assert found["workspace"].startswith(how), found
        assert [rank["phase"] for rank in found["ranks"]] == ["Running"] * 2
        if source != "api":
            assert found["stage"] == "train"
            assert [each["number"] for each in found["attempts"]] == [1]
    _no_reader(run)
    assert [(each["run"], each["state"], each["stage"]) for each in _listed(space)] == [
        ("dpo", "running", "train")
    ]


def _reported(run: Run, source: str, steps: int) -> None:
    """Report the run with rows of its own, which the stand-in for torchrun does not write."""
    made = (
        Row(step=step, total=steps, attempt=1, time=1.8e9 + step, seconds=1.0, values={"loss": 0.5})
        for step in range(1, steps + 1)
    )
    text = "".join(f"{rows.line(each)}\n" for each in made)
    (run.home / "metrics.jsonl").write_text(text, encoding="utf-8")
    with measured(f"megatron-dpo report --source {source}, {steps} steps"):
        said = megatron_dpo(run.space, "report", "dpo", "--json", "--source", source)
    assert said.code == 0, said
    [found] = said.document["runs"]
    assert found["place"].startswith({"exec": "exec in pod dpo-", "pod": "reader pod dpo-"}[source])
    assert found["curves"]["loss"]["recorded"] == steps and found["state"]
    page = run.space.folder / f"{source}.html"
    said = megatron_dpo(run.space, "report", "dpo", "--source", source, "--file", str(page))
    assert said.code == 0 and "</html>" in page.read_text(encoding="utf-8"), said
    _no_reader(run)


def _cleaned(run: Run) -> None:
    """Runs that have ended are removed through a pod of this one, which itself may resume."""
    for source, how in (("exec", "exec in pod dpo-"), ("pod", "a reader pod of dpo")):
        old = run.home.parent / f"old-{source}"
        (old / "export").mkdir(parents=True)
        (old / "export" / "weights").write_bytes(b"x" * 4096)
        for folder in (old, old / "export"):
            folder.chmod(0o777)  # the pods are not of this user
        (old / "progress.json").write_text('{"state": "succeeded"}', encoding="utf-8")
        through = ("clean", "--through", "dpo", "--source", source, "--json")
        listed = megatron_dpo(run.space, *through)
        assert listed.code == 0 and listed.document["workspace"].startswith(how), listed
        held = {each["run"]: each for each in listed.document["runs"]}
        assert set(held) == {"dpo", old.name} and held["dpo"]["may_resume"], listed
        assert held[old.name]["bytes"]["export"] == 4096
        refused = megatron_dpo(run.space, *through, "dpo", "--yes")
        assert refused.code == Exit.FAILED and run.home.is_dir(), refused
        removed = megatron_dpo(run.space, *through, old.name, "--yes")
        assert removed.code == 0 and removed.document["removed"] == [old.name], removed
        assert not old.exists()
    _no_reader(run)


def _no_reader(run: Run) -> None:
    pods = [item["metadata"]["name"] for item in run.space.kubectl.items("pods")]
    assert not any("reader" in name for name in pods)


def _logged(run: Run) -> None:
    words = ("--grep", "stand-in for torchrun has started")
    said = megatron_dpo(run.space, "logs", "dpo", "--all", *words)
    assert said.code == 0 and not said.err, said
    ranks = sorted(line.partition(" | ")[0] for line in said.out.splitlines())
    assert ranks == ["rank 0", "rank 1"]


CANARY = "cAnArY-5e1f0d"
SECRET = f"{CANARY}-of-secret"


def test_a_failed_run_is_packed_without_secrets_and_started_again(queued: Space) -> None:
    data = {"token": base64.b64encode(SECRET.encode()).decode()}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf-token"}, "data": data}
    queued.kubectl.apply([made])
    over = {
        "secrets": {"hf": {"existingSecret": "hf-token"}},
        "extraEnv": {"DEBUG_LABEL": f"{CANARY}-of-env"},
        "restarts": {"max": 0, "inPlace": 0},
    }
    release, run = standin.release(queued, "dpo", merge(ONE_NODE, over), hold=True)
    release.install()
    until("the trainer has started", lambda: list(run.home.rglob("argv.json")), seconds=60)
    said = f"ValueError: password={CANARY}-of-log, {SECRET}, {CANARY}-of-env"
    standin.order(run, f"fail {said}", "1-0")
    run.ended("Failed")
    [pod] = run.pods()
    assert said in run.log(pod.name)
    _bundled(run)
    explained(queued, "dpo", "user-error", Exit.FAILED, pod.name, "ValueError")
    before = run.jobset["metadata"]["uid"]
    again = megatron_dpo(queued, "rerun", "dpo", "--yes")
    assert again.code == Exit.OK, again
    assert run.jobset["metadata"]["uid"] != before
    standin.finish(run)
    assert run.progress["attempt"] == 2


def _bundled(run: Run) -> None:
    """Pack the run, through a reader pod, since its own pods have ended."""
    file = run.space.folder / "bundle.tar.gz"
    said = megatron_dpo(run.space, "bundle", run.name, "--file", str(file))
    assert said.code == 0, said
    _no_reader(run)
    held = _unpacked(file)
    for name in ("jobset.json", "pods.json", "rank-0.log", "secrets/hf-token.json"):
        assert f"bundle-dpo/cluster/{name}" in held, sorted(held)
    assert any(name.startswith("bundle-dpo/attempts/1/") for name in held), sorted(held)
    for form in (CANARY, base64.b64encode(SECRET.encode()).decode()):
        assert [name for name, text in held.items() if form in text] == []
        assert form not in said.out + said.err
    assert "ValueError: password=" in held["bundle-dpo/cluster/rank-0.log"]


def _unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as tar:
        opened = {item.name: tar.extractfile(item) for item in tar.getmembers()}
        return {name: each.read().decode() for name, each in opened.items() if each}


def test_a_sweep_on_one_queue_loses_no_run_and_tells_what_fails_or_may_not_run(
    unqueued: Space,
) -> None:
    queues.make(unqueued, {"nvidia.com/gpu": "8"})  # one after the other
    orders = {"0-05": "fail ValueError: no such template", "0-1": "succeed"}
    runs = [(Run(name=f"dpo-beta-{beta}", space=unqueued), each) for beta, each in orders.items()]
    for run, order in runs:
        standin.order(run, order)
    vary = ("--vary", "recipe.args.beta=0.05,0.1,high", "--yes", "--json")
    said = submit(unqueued, "dpo", *vary, over=ONE_NODE, verb="sweep")
    assert said.code == Exit.FAILED, said
    rows = said.document["runs"]
    assert [each["accepted"] for each in rows] == [True, True, False], said
    assert "beta" in rows[2]["says"]
    names = [run.name for run, _ in runs]
    assert f"compare them: megatron-dpo report {' '.join(names)}" in said.err
    for run, order in runs:
        run.ended("Completed" if order == "succeed" else "Failed", seconds=120)
    listed = {each["run"]: each["state"] for each in _listed(unqueued)}
    states = ["done" if order == "succeed" else "failed" for _, order in runs]
    assert listed == dict(zip(names, states, strict=True))
    explained(unqueued, names[0], "user-error", Exit.FAILED, "ValueError")
    reported = megatron_dpo(unqueued, "report", *names, "--json", "--source", "pod")
    assert reported.code == 0, reported
    found = {each["name"]: each["state"] for each in reported.document["runs"]}
    assert list(found) == names and found[names[0]].startswith("failed"), found


def _listed(space: Space) -> Any:
    return megatron_dpo(space, "list", "--json").document["runs"]


def test_a_user_with_the_rights_of_the_namespace_only_sees_the_run(unqueued: Space) -> None:
    queues.make(unqueued, ONE_GANG)
    standin.train(unqueued)
    standin.release(unqueued, "second", hold=True)[0].install()
    config = member(unqueued, "member")
    seen = megatron_dpo(unqueued, "status", "dpo", "--json", kubeconfig=config)
    assert seen.code == Exit.OK, seen
    found = seen.document
    assert found["workspace"].startswith("exec in pod dpo-"), found
    assert (found["stage"], found["notes"]) == ("train", []), found
    explained(unqueued, "second", "quota-short", Exit.WAITING, "dpo holds 16", kubeconfig=config)
    some = member(unqueued, "some", of=("jobset.x-k8s.io", "batch"))
    lacks = megatron_dpo(unqueued, "status", "dpo", "--json", "--source", "api", kubeconfig=some)
    noted = " ".join(lacks.document["notes"])
    assert lacks.code == Exit.UNKNOWN, lacks
    for permission in ("list pods", "list workloads", "get localqueues"):
        assert f"you lack the permission: {permission}" in noted, noted
    nobody = member(unqueued, "nobody", of=())
    explained(unqueued, "dpo", "no-permission", Exit.UNKNOWN, "nobody", kubeconfig=nobody)
