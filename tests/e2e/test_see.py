"""submit, list, status, why, logs, report, clean, stop and resume on a real cluster."""

from __future__ import annotations

import pytest

from launchers.metrics import rows
from launchers.metrics.rows import Row
from scripts.observe.command import Exit
from tests.e2e import queues, standin
from tests.e2e.measured import measured
from tests.e2e.merge import merge
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


@pytest.mark.timeout(300)
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
    standin.order(run, "succeed")
    run.ended()
    explained(unqueued, "dpo", "succeeded", Exit.OK)
    _reported(run, "pod", steps=60_000)
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
    listed = megatron_dpo(space, "list", "--json").document["runs"]
    assert [(each["run"], each["state"], each["stage"]) for each in listed] == [
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


def test_why_a_run_waits_for_its_queue(unqueued: Space) -> None:
    queues.make(unqueued, ONE_GANG)
    first_release, first = standin.release(unqueued, "first", hold=True)
    first_release.install()
    first.running(2)
    for name, over in (("second", {}), ("large", {"nodes": 4})):
        release, _ = standin.release(unqueued, name, over, hold=True)
        release.install()
    explained(unqueued, "second", "quota-short", Exit.WAITING, "first holds 16")
    explained(unqueued, "large", "quota-exceeds-maximum", Exit.FAILED, "32")
    states = {
        each["run"]: each for each in megatron_dpo(unqueued, "list", "--json").document["runs"]
    }
    assert states["second"]["state"] == "waiting" and states["first"]["state"] == "running"
    queues.make(unqueued, ONE_GANG, spec={"stopPolicy": "Hold"})
    explained(unqueued, "second", "cluster-queue-stopped", Exit.WAITING)


def test_why_pods_do_not_start_and_what_a_user_did_wrong(queued: Space) -> None:
    secret = {"secrets": {"hf": {"existingSecret": "hf-token"}}}
    image = {"image": {"repository": "localhost/none", "pullPolicy": "Always"}}
    nowhere = {"kueue": {"queue": ""}, "nodeSelector": {"pool": "none"}}
    for name, over in (
        ("secret", secret),
        ("image", image),
        ("nowhere", nowhere),
    ):
        release, _ = standin.release(queued, name, merge(ONE_NODE, over), hold=True)
        release.install()
    explained(queued, "secret", "secret-missing", Exit.FAILED, "hf-token")
    explained(queued, "nowhere", "unschedulable-affinity", Exit.WAITING)
    pulled = megatron_dpo(queued, "why", "image", "--json").document
    assert pulled["reasons"][0]["id"] in ("image-pull", "image-pull-denied"), pulled
    queued.kubectl.delete("jobsets", "--all", "--cascade=foreground")
    wrong = {"recipe": {"model": "file:///workspace/sources/none"}}
    release, run = standin.release(queued, "wrong", merge(ONE_NODE, wrong))
    release.install()
    run.ended("Failed")
    explained(queued, "wrong", "user-error", Exit.FAILED, "rank 0")
    missing = megatron_dpo(queued, "why", "wrogn")
    assert missing.code == Exit.FAILED and "wrong" in missing.out, missing
