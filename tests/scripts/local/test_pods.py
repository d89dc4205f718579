"""Pods of a JobSet, their order and GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.local.pods import expand, order, refuse_unrunnable, share
from scripts.manifest import parse
from scripts.problem import Problem
from tests.scripts.local.rendered import job, manifest


def test_every_completion_of_the_gang_is_a_pod_with_its_cluster_name() -> None:
    pods = expand(parse(manifest(jobs=[job("node", 3)])))
    assert [pod.name for pod in pods] == ["run-node-0-0", "run-node-0-1", "run-node-0-2"]
    assert pods[2].address == "run-node-0-2.run"
    assert [pod.index for pod in pods] == [0, 1, 2]


def test_a_pod_has_the_labels_that_the_controllers_write() -> None:
    labels = expand(parse(manifest()), restarts=2)[1].labels
    jobset = {"job-index": "0", "restart-attempt": "2", "replicatedjob-name": "node"}
    wanted = {f"jobset.sigs.k8s.io/{name}": value for name, value in jobset.items()}
    wanted |= {"batch.kubernetes.io/job-completion-index": "1", "team": "a"}
    assert wanted.items() <= labels.items()


def test_replicas_number_the_jobs_and_nodes_count_on() -> None:
    two = {**job("node", 2), "replicas": 2}
    pods = expand(parse(manifest(jobs=[two])))
    assert [pod.name for pod in pods] == [f"run-node-{j}-{i}" for j in (0, 1) for i in (0, 1)]
    assert [pod.node for pod in pods] == ["local-0", "local-1", "local-2", "local-3"]


def test_a_job_starts_after_those_it_depends_on() -> None:
    last = job("node", 2, needs=["download"])
    jobs = [job("clone", 1), job("download", 1, needs=["clone"]), last]
    assert order(parse(manifest(jobs=jobs)).jobs) == [["clone"], ["download"], ["node"]]
    circle = [job("a", 1, needs=["b"]), job("b", 1, needs=["a"])]
    with pytest.raises(Problem, match="dependsOn of a, b is a circle"):
        order(parse(manifest(jobs=circle)).jobs)


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(0, 8))
def test_pods_never_share_a_gpu(counts: list[int], spare: int) -> None:
    devices = [str(number) for number in range(sum(counts) + spare)]
    slices = share(counts, devices)
    used = [device for own in slices for device in own]
    assert [len(own) for own in slices] == counts
    assert len(set(used)) == len(used)


def test_too_few_gpus_say_which_values_to_write() -> None:
    with pytest.raises(Problem, match="ask for 4 GPUs and this machine has 1.*gpusPerNode"):
        share([2, 2], ["0"])


def test_two_containers_are_refused_with_the_way_out() -> None:
    two = job("node", 1)
    two["template"]["spec"]["template"]["spec"]["containers"] *= 2
    with pytest.raises(Problem, match="2 containers.*network.profile"):
        refuse_unrunnable(parse(manifest(jobs=[two])))
