"""One node compared with two: the runs of visits.yaml, and their checks."""

import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers import version
from launchers.config import recipe as recipes
from launchers.metrics.rows import Row
from launchers.plan import model_config
from launchers.rules import table
from scripts import archive, manifest
from scripts.problem import Problem
from tests.gpu import pack_visits
from tests.gpu.bench.profiles import ROOT
from tests.gpu.launcher import launch, nodes
from tests.gpu.launcher.launch import Launch
from tests.gpu.model import random_model

PROBED = ("hangs", "saves", "matrix", "restart")
"""Runs with a plugin of tests/gpu/plugins that measures or injects faults."""
LAUNCHES = list(pack_visits.launches(["1gpu", "2gpu", "4gpu", "8gpu"]))


def test_every_visit_goes_through_the_launcher_on_one_and_two_nodes_and_with_faults() -> None:
    found = [(each.name, each.nodes, each.gpus_per_node) for each in LAUNCHES]
    both = ("nodes-one", 1), ("nodes-two", 2), ("faults", 2)
    in_place = (("faults-in-place", 2),)
    large = ("faults-5-layers", 2), ("faults-5-layers-in-place", 2)
    saves = ("saves-before", 1), ("saves-now", 1)
    new = ("matrix-new", 2), ("matrix-new-2", 2)
    restarts = ("restart", 2), ("restart-standby", 2), ("restart-5-layers", 2)
    faults = ("matrix", 2), *new, ("matrix-local", 2), *restarts
    own = ("faults-in-step", 2), ("hangs", 2), *saves, *faults
    rehearsals = ("rehearse-pipeline", 1), ("rehearse", 1)
    alone = (
        *("faults-lora", "faults", "faults-in-place", "matrix", "matrix-1", "matrix-2"),
        *("restart", "restart-standby", "restart-2-layers", "rehearse"),
    )
    runs = {
        1: tuple((line, 1) for line in alone),
        2: (*both, *in_place, *own, *rehearsals),
        4: (*both, *in_place, *large),
        8: both,
    }
    assert found == [
        (f"visit-{gpus}gpu-{run}", count, gpus // count)
        for gpus, lines in runs.items()
        for run, count in lines
    ]


@pytest.mark.parametrize("each", LAUNCHES, ids=lambda each: each.name)
def test_chart_and_rules_take_the_run(each: Launch) -> None:
    jobset = manifest.parse(launch.render(each))
    assert jobset.jobs[0].replicas * jobset.jobs[0].completions == each.nodes
    text = next(d["recipe.yaml"] for d in jobset.config_maps.values() if "recipe.yaml" in d)
    parsed = recipes.parse(yaml.safe_load(text))
    layers = each.model.name.removeprefix("model-")
    tiny = replace(random_model.TINY, vocab_size=151_936)
    seen = tiny if layers == "tiny" else random_model.Config(num_hidden_layers=int(layers))
    broken = table.check(
        parsed.args,
        table.Context.of(
            parsed,
            model_config=model_config.parse_config(random_model.config(seen)),
            nodes=each.nodes,
            gpus_per_node=each.gpus_per_node,
        ),
    )
    assert not broken
    if not any(kind in each.name for kind in PROBED):
        assert "external_plugins" not in parsed.args
    assert "num_train_epochs" not in parsed.args


def test_one_and_two_nodes_differ_in_nothing_but_the_nodes() -> None:
    one, two = (each for each in LAUNCHES if "2gpu-nodes" in each.name)
    assert replace(two, name=one.name, nodes=1, gpus_per_node=2) == one


def test_a_manifest_of_other_launchers_is_refused(tmp_path: Path) -> None:
    each = LAUNCHES[-1]
    file = launch.packed_file(tmp_path, each.name)
    file.parent.mkdir()
    text = launch.render(each)
    file.write_text(text)
    assert launch.manifest_of(each, tmp_path) == text
    other = {**version.sources(ROOT / "launchers"), "__main__.py": b"pass"}
    packed = b64encode(archive.pack(other)).decode()
    file.write_text(re.sub(r"(?m)^(  launchers\.tar\.bz2): .*", rf"\1: {packed}", text))
    with pytest.raises(Problem, match=r"another __main__\.py; write python -m tests\.gpu\.pack_v"):
        launch.manifest_of(each, tmp_path)


def row(step: int, rate: float, **values: float) -> Row:
    first = {"loss": 0.69314718, "logps/chosen": -300.0, "logps/rejected": -310.0, **values}
    fields: dict[str, Any] = {"tokens_per_second_per_gpu": rate, "world": 2, "values": first}
    return Row(step=step, total=9, attempt=1, time=float(step), seconds=2.0, **fields)


def runs(two: float, **values: float) -> dict[str, Any]:
    both = {"one": [row(1, 10), row(2, 100), row(3, 100)]}
    both["two"] = [row(1, 9, **values), row(2, two), row(3, two)]
    return {kind: nodes.figures(rows, warm_up=1) for kind, rows in both.items()}


def test_the_ratio_is_of_the_medians_after_the_warm_up() -> None:
    seen = runs(97.0)
    assert nodes.ratio(seen) == 0.97
    assert nodes.complaints(seen, 2) == []
    assert seen["one"]["steps"] == 2 and seen["one"]["world"] == 2


def test_runs_that_are_not_the_same_are_said() -> None:
    assert "logps/chosen of the first step is -300.0 on one node and -301.0" in "\n".join(
        nodes.complaints(runs(97.0, **{"logps/chosen": -301.0}), 2)
    )
    assert "not ln 2" in nodes.complaints(runs(97.0, loss=0.7), 2)[0]
    cut = {**runs(97.0), "two": {"steps": 0, "ended": "time limit"}}
    assert nodes.ratio(cut) is None
    assert nodes.complaints(cut, 2) == ["two: 0 of 2 steps were measured; it ended by time limit"]
