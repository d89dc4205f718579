"""Placement of ranks: near each other, and in the order of the topology."""

from itertools import groupby

from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.runs import Run
from tests.e2e.space import Space

RACK = "cloud.provider.com/topology-block"
SMALL: Object = {
    # Six pods of four GPUs fill the three hosts; sizes that divide 24 processes.
    "nodes": 6,
    "gpusPerNode": 4,
    "recipe": {
        "args": {
            "tensor_model_parallel_size": 1,
            "pipeline_model_parallel_size": 1,
            "expert_model_parallel_size": 8,
            "global_batch_size": 24,
        }
    },
}


def topology(mode: str, key: str = RACK) -> Object:
    return {"kueue": {"topology": {"mode": mode, "key": key}}}


def places(run: Run) -> list[tuple[str, str]]:
    nodes = {n["metadata"]["name"]: n for n in run.space.kubectl.items("nodes")}
    racks = {name: node["metadata"]["labels"][RACK] for name, node in nodes.items()}
    return [(racks[pod.node], pod.node) for pod in run.pods()]


def contiguous(names: list[str]) -> bool:
    """Return whether equal names are contiguous.

    >>> contiguous(["a", "a", "b"]), contiguous(["a", "b", "a"])
    (True, False)
    """
    return len([name for name, _ in groupby(names)]) == len(set(names))


def test_a_required_rack_that_is_too_small_keeps_the_run_waiting(queued: Space) -> None:
    release, run = standin.release(queued, "dpo", SMALL | topology("required"))
    release.install()
    message = run.condition("QuotaReserved", "False")["message"]
    assert "topology" in message
    assert "4 out of 6 pod(s)" in message
    assert run.suspended
    assert run.pods() == []


def test_a_preferred_rack_that_is_too_small_is_left_with_ranks_in_order(queued: Space) -> None:
    release, run = standin.release(queued, "dpo", SMALL | topology("preferred"), hold=True)
    release.install()
    run.running(6, seconds=120)
    found = places(run)
    assert len(found) == 6
    assert contiguous([rack for rack, _ in found])
    assert contiguous([node for _, node in found])
    assert {node for _, node in found} == set(queued.cluster.nodes)
