"""The runs of visits.yaml that go through the launcher are accepted by chart and rules."""

import re
from base64 import b64encode
from pathlib import Path

import pytest
import yaml

from launchers import version
from launchers.config import recipe as recipes
from launchers.plan import model_config
from launchers.rules import table
from scripts import archive, manifest
from scripts.problem import Problem
from tests.bench import pack
from tests.bench.launcher import launch
from tests.bench.launcher import run as launch_run
from tests.bench.launcher.launch import Launch
from tests.bench.model import random_model
from tests.bench.speed.profiles import ROOT

PROBED = ("saves", "matrix", "restart", "convert")
"""Runs with a plugin of tests/bench/plugins that measures or injects faults."""
LAUNCHES = list(pack.launches(["1gpu", "2gpu", "4gpu", "8gpu"]))


def test_every_visit_goes_through_the_launcher_with_faults() -> None:
    found = {each.name[len("visit-") :]: (each.nodes, each.gpus_per_node) for each in LAUNCHES}
    assert found["matrix-1gpu"] == (1, 1) and found["matrix-2gpu"] == (2, 1)
    assert found["saves-2gpu"] == found["rehearse-2gpu"] == (1, 2)
    assert found["convert-4gpu"] == (2, 2) and found["restart-8gpu"] == (2, 4)
    assert len(found) == len(LAUNCHES)


@pytest.mark.parametrize("each", LAUNCHES, ids=lambda each: each.name)
def test_chart_and_rules_take_the_run(each: Launch) -> None:
    jobset = manifest.parse(launch.render(each))
    assert jobset.jobs[0].replicas * jobset.jobs[0].completions == each.nodes
    text = next(d["recipe.yaml"] for d in jobset.config_maps.values() if "recipe.yaml" in d)
    parsed = recipes.parse(yaml.safe_load(text))
    words = ["FOLDER", "--tokenizer", "TOKENIZER", *launch_run.model_words(each.model)]
    seen = random_model.sizes_of(random_model.arguments(words))
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
    with pytest.raises(Problem, match=r"another __main__\.py; write python3 -m tests\.bench pack"):
        launch.manifest_of(each, tmp_path)
