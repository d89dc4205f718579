"""The README's installation on a real cluster: real training, preempted, no leftovers."""

import hashlib
import json
from collections.abc import Iterator

import pytest
import yaml

from launchers.storage import checkpoint, marker
from tests.e2e import real, sources, standin
from tests.e2e.measured import measured
from tests.e2e.merge import merge
from tests.e2e.real import MINUTES, MainJob
from tests.e2e.release import A100
from tests.e2e.runs import Run
from tests.e2e.space import Opened, Space
from tests.e2e.until import until

STEPS = 80


@pytest.fixture(scope="module")
def main_job(opened: Opened) -> Iterator[MainJob]:
    with opened("main-job") as place:
        yield real.main_job(place)


def test_the_gang_ran_on_two_nodes_of_one_rack(main_job: MainJob) -> None:
    pods = main_job.run.pods()
    assert [(pod.rank, pod.code) for pod in pods] == [(0, 0), (1, 0)]
    nodes = [main_job.space.kubectl.get("node", pod.node) for pod in pods]
    assert len({node["metadata"]["name"] for node in nodes}) == 2
    racks = {node["metadata"]["labels"]["cloud.provider.com/topology-block"] for node in nodes}
    assert len(racks) == 1


def test_kueue_admitted_it_with_a_topology_and_freed_its_quota(main_job: MainJob) -> None:
    assert main_job.run.condition("Finished")["reason"] == "Succeeded"  # soon after the JobSet
    workload = main_job.run.workload
    assert workload is not None
    assert main_job.run.conditions()["Admitted"][0] == "True"
    assigned = workload["status"]["admission"]["podSetAssignments"][0]
    assert assigned["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]
    assert assigned["resourceUsage"]["nvidia.com/gpu"] == "16"
    assert assigned["resourceUsage"]["rdma/hca_shared_devices_a"] == "2"


def test_the_ranks_found_each_other_by_name_and_started_together(main_job: MainJob) -> None:
    logs = [main_job.run.log(pod.name) for pod in main_job.run.pods()]
    assert all("master=dpo-42-node-0-0.dpo-42:29500" in log for log in logs)
    generations = {log.partition("gang started generation=")[2].split()[0] for log in logs}
    assert len(generations) == 1


def test_all_stages_ran(main_job: MainJob) -> None:
    assert main_job.run.progress["state"] == "succeeded"
    # Megatron cannot run without a GPU, and the shipped file skips its conversion anyway.
    assert main_job.run.states == {
        "clone": "done",
        "download": "done",
        "convert": "skipped",
        "train": "done",
    }


def test_both_ranks_trained_and_the_loss_fell(main_job: MainJob) -> None:
    losses = main_job.losses
    assert sorted(losses) == list(range(1, STEPS + 1))
    assert losses[STEPS] < losses[1] - 1
    attempts = main_job.run.home / "attempts"
    assert sorted(p.name for p in attempts.glob("*/node-?.log")) == ["node-0.log", "node-1.log"]


def test_the_checkpoint_and_the_export_are_whole(main_job: MainJob) -> None:
    last = checkpoint.newest(main_job.run.home / "checkpoints")
    assert last is not None
    assert last.step == STEPS
    export = main_job.run.home / "export"
    made = marker.read(export)
    assert made is not None
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= set(made.manifest)
    for name, entry in made.manifest.items():
        assert hashlib.sha256((export / name).read_bytes()).hexdigest() == entry.sha256


def test_helm_test_proves_the_run(main_job: MainJob) -> None:
    with measured("helm test of a run that has ended"):
        printed = main_job.release.test(60)
    assert "Succeeded" in printed


def test_uninstall_leaves_nothing_but_the_workspace(main_job: MainJob) -> None:
    def left() -> set[str]:
        made = real.objects(main_job.space) - main_job.before
        return {name for name in made if main_job.run.name in name}  # exclude other tests' runs

    assert left()
    with measured("helm uninstall of a run that has ended"):
        main_job.release.uninstall()
    until("nothing of the run is left", lambda: left() == set(), seconds=20)
    assert (main_job.run.home / "export" / "model.safetensors").exists()


def test_a_preempted_run_resumes_and_reaches_the_same_loss(main_job: MainJob) -> None:
    space = main_job.space
    low, run = real.release(space, "dpo-low", {"kueue": {"priorityClass": "low"}})
    low.install()
    saved = until(
        "the low run has a complete checkpoint",
        lambda: checkpoint.newest(run.home / "checkpoints"),
        seconds=MINUTES * 60,
    )
    high, other = standin.release(space, "dpo-high", hold=True)
    with measured("preemption: helm install of a high run to both its pods running"):
        high.install()
        other.running(2)
    assert run.suspended
    assert run.pods() == []
    stopped = checkpoint.newest(run.home / "checkpoints")
    assert stopped is not None and stopped.step >= saved.step
    assert stopped.step < max(main_job.losses), "it had ended before it was preempted"
    assert real.losses(run)[-1][0] <= stopped.step  # SIGTERM has saved the last step
    standin.finish(other)
    with measured("preempted run: back at work to JobSet Completed"):
        run.running(2)
        run.ended(seconds=MINUTES * 60)
    real.keep(run)
    # A rank may end before its pod is removed: then it is a restart that does not count.
    assert run.restarts[1] == 0
    assert run.progress["attempt"] == 2
    resumed = f"resume=/workspace/runs/dpo-low/checkpoints/checkpoint-{stopped.step}"
    assert all(resumed in run.log(pod.name) for pod in run.pods())
    rows = real.losses(run)
    assert rows[-1][0] == max(main_job.losses)
    assert rows == [(step, main_job.losses[step]) for step, _ in rows]


def test_the_shipped_megatron_recipe_passes_all_four_stages(queued: Space) -> None:
    """Uses a stand-in for torchrun, since Megatron needs GPUs; everything else is the shipped
    file's."""
    sources.serve(queued)
    shipped = yaml.safe_load(A100.read_text(encoding="utf-8"))
    recipe, hub = shipped["recipe"], sources.hub(shipped["recipe"]["model"])
    over = {
        "stages": {"convert": {"skip": False}},
        "code": {**shipped["code"], "url": f"{sources.URL}/{sources.REPO}"},
    }
    release, run = standin.release(queued, "dpo-42", merge(merge(hub, over), {"recipe": recipe}))
    with measured("gang of 2, stand-in trainer: helm install to JobSet Completed"):
        release.install()
        run.ended()
    assert run.states == dict.fromkeys(("clone", "download", "convert", "train"), "done")
    for rank in (0, 1):
        words = torchrun_words(run, rank)
        assert words["--nnodes"] == "2"
        assert words["--nproc-per-node"] == "8"
        assert words["--node-rank"] == str(rank)
        assert words["--master-addr"] == "dpo-42-node-0-0.dpo-42"
        for size in ("tensor_model_parallel_size", "pipeline_model_parallel_size"):
            assert words[f"--{size}"] == str(recipe["args"][size])
        assert words["--mcore_model"].startswith("/workspace/mcore/")


def torchrun_words(run: Run, rank: int) -> dict[str, str]:
    """Return torchrun's flags in the first attempt, each with its first value."""
    folder = run.home / "attempts" / "1" / f"node-{rank}"
    argv = json.loads(next(folder.rglob("argv.json")).read_text(encoding="utf-8"))
    return {word: argv[i + 1] for i, word in enumerate(argv[:-1]) if word.startswith("--")}
