"""Each file of values/recipes for the transformers trainer trains a tiny model on CPU.

Those of Megatron need a GPU (tests/bench). A file whose package this environment lacks must end
with that package's name before anything is downloaded; with it, it has to train, too.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit
from launchers.yaml_file import read_yaml
from scripts.demo.sources import Sources
from scripts.helm import ROOT
from tests.launchers.run.trained import Trained, short_sources, stopped
from tests.launchers.training_environment import PYTHON, needs_training

OVERLAY = Path(__file__).with_name("recipes_on_cpu.yaml")
SEEDS: dict[str, Any] = read_yaml(ROOT / "tests" / "seeds.yaml")
TRAINS = "trains"
OUTCOMES = {seed["file"]: seed["cpu"] for seed in SEEDS["commands"] if "cpu" in seed}
"""File to ``TRAINS``, or to the package that it needs and the locked CPU environment lacks."""


def recipe_of(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(file)["recipe"]
    return found


FILES = [
    file
    for file in sorted((ROOT / "values" / "recipes").glob("*.yaml"))
    if recipe_of(file).get("backend") == "transformers"
]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    made = short_sources(tmp_path_factory.mktemp("sources"))
    pairs = [json.loads(line) for line in made.pairs.read_text().splitlines()[:16]]
    question, answer = {"role": "user"}, {"role": "assistant"}
    rows = [
        {
            "messages": [{**question, "content": p["prompt"]}, {**answer, "content": p["chosen"]}],
            "label": number % 2 == 0,
        }
        for number, p in enumerate(pairs)
    ]
    made.pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def has(package: str) -> bool:
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec('{package}') is None)"
    return subprocess.run([str(PYTHON), "-c", code], check=False).returncode == 0


@needs_training
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_published_recipe_trains_or_names_what_is_missing(
    file: Path, tmp_path: Path, given: Sources
) -> None:
    # a pair of ranks where the file has several GPUs, as it is data parallel there
    values = read_yaml(file)
    pods = Trained(tmp_path, nodes=min(2, values["nodes"] * values["gpusPerNode"]), given=given)
    document = recipe_of(file)
    args = document["args"] | recipe_of(OVERLAY)["args"]
    sources = {"model": f"file://{given.model}", "dataset": [f"file://{given.pairs}"]}
    pods.write_recipe(**{"task": "rlhf", **document, "args": args, **sources})
    codes = stopped(pods, [pods.start(rank) for rank in range(pods.nodes)])
    package = OUTCOMES[file.stem]
    if package != TRAINS and not has(package):
        assert set(codes) == {Exit.CONFIG}, pods.said()
        assert pods.message(0)["id"] == "package-missing" and package in pods.message(0)["cause"]
        return
    assert set(codes) == {Exit.OK}, pods.said()
    assert [step for step, _ in pods.losses()] == [1, 2]
    export = pods.run / "export"
    is_adapter = args["tuner_type"] == "lora"
    assert (export / "adapter_config.json").exists() == is_adapter
    assert list(export.glob("*.safetensors"))


def test_each_file_has_its_outcome() -> None:
    assert OUTCOMES.keys() == {file.stem for file in FILES} and len(FILES) == 6
