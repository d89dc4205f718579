"""Reading of a rendered manifest."""

from pathlib import Path

import pytest
import yaml

from launchers.units import GIB
from scripts.helm import ROOT, template
from scripts.plan.submission import read_submission
from scripts.problem import Problem
from tests.chart.helm import layers
from tests.scripts.plan.values import rendered


def test_the_shipped_values_are_read() -> None:
    found, pod = rendered(), rendered().pod
    assert (found.run, found.nodes, found.gpus_per_node) == ("dpo-42", 2, 8)
    assert found.recipe.arg("tensor_model_parallel_size") == "1"
    assert (pod.memory, pod.shared_memory, pod.cpus) == (480 * GIB, 32 * GIB, 80)
    assert pod.devices == {"nvidia.com/gpu": 8, "rdma/hca_shared_devices_a": 1}
    assert (found.queue, found.workspace, found.restarts) == ("gpu", "claim training", 5)
    assert found.topology == "preferred cloud.provider.com/topology-block"
    assert (found.placement, found.skips) == ("inline", frozenset({"convert"}))


def test_what_is_set_wins_over_the_file() -> None:
    found = rendered(
        *("nodes=4", "kueue.queue=team-a", "kueue.priorityClass=high", "stages.placement=jobs"),
        *("workspace.existingClaim=", "workspace.pvc.size=2Ti"),
    )
    assert (found.nodes, found.queue, found.priority) == (4, "team-a", "high")
    assert (found.placement, found.workspace_size) == ("jobs", 2 * 2**40)


@pytest.mark.parametrize("file", sorted((ROOT / "values").glob("*.yaml")), ids=lambda f: f.stem)
def test_every_shipped_file_is_read(file: Path) -> None:
    files = [Path(word) for word in layers(file) if word != "-f"]
    found = read_submission(template("run", files))
    assert found.nodes >= 1 and found.recipe.dataset


def test_a_manifest_of_another_chart_is_refused() -> None:
    foreign = {"kind": "JobSet", "metadata": {"name": "x"}, "spec": {"replicatedJobs": []}}
    with pytest.raises(Problem, match="has no replicated job node"):
        read_submission(yaml.safe_dump(foreign))
