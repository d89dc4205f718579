"""What users of other systems bring: a command leads to its file, a setting to its outcome."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from launchers.config.gpu_models import GPU_MODELS
from launchers.yaml_file import read_yaml
from scripts.helm import ROOT
from scripts.plan.submission import read_submission
from tests.chart.helm import merged, template
from tests.refusals import planned
from tests.refusals.cases import Case
from tests.refusals.judge import judge

SEEDS: dict[str, list[dict[str, Any]]] = read_yaml(ROOT / "tests" / "seeds.yaml")
RECIPES = ROOT / "values" / "recipes"
GPU = "a100-80g"


def values_of(command: str, nodes: int, gpus: int) -> dict[str, Any]:
    program, task, *words = shlex.split(command)
    args: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            given = args.setdefault(word[2:], [])
        else:
            given.append(word)
    flags = {flag: (of if len(of) > 1 else of[0] if of else True) for flag, of in args.items()}
    backend = "megatron" if program == "megatron" else "transformers"
    recipe = {"backend": backend, "task": task, "args": {"num_train_epochs": None, **flags}}
    return {"nodes": nodes, "gpusPerNode": gpus, "recipe": recipe}


def refused(values: dict[str, Any], folder: Path, gpu: str = "") -> dict[str, str]:
    """Return path and id of each refusal before anything is submitted."""
    case = Case(subject="seeds", case="x", values=values, where="plan", id="", gpu=gpu)
    return {
        each.path.removeprefix("recipe.args."): each.id for each in judge(case, folder).refusals
    }


@pytest.mark.parametrize("seed", SEEDS["commands"], ids=lambda seed: seed["name"])
def test_what_is_refused_of_a_command_is_all_that_its_file_leaves_out(
    seed: dict[str, Any], tmp_path: Path
) -> None:
    assert refused(values_of(seed["command"], *seed["gpus"]), tmp_path) == seed["refused"]
    file = read_yaml(RECIPES / f"{seed['file']}.yaml")
    assert [file["nodes"], file["gpusPerNode"]] == seed["gpus"]
    names = {name for name, id in seed["refused"].items() if id in ("flag-renamed", "flag-owned")}
    assert not names & file["recipe"]["args"].keys()
    assert planned.refusals(file, GPU, tmp_path) == []


def test_each_file_has_its_command_and_at_most_25_lines() -> None:
    files = {file.stem: file.read_text(encoding="utf-8") for file in RECIPES.glob("*.yaml")}
    assert sorted(files) == sorted(seed["file"] for seed in SEEDS["commands"])
    for text in files.values():
        assert text.count("\n") <= 25
        assert text.splitlines()[1].startswith("# Published: ")


@pytest.mark.parametrize("row", SEEDS["settings"], ids=lambda row: str(row["brought"]))
def test_a_setting_has_its_outcome(row: dict[str, Any], tmp_path: Path) -> None:
    values, gpu = row["values"], row.get("gpu", "")
    assert not gpu or gpu in GPU_MODELS
    assert refused(values, tmp_path, gpu) == row.get("refused", {})
    if "leads" in row:
        case = Case(subject="seeds", case="x", values=values, where="chart", id="")
        found = re.findall(r"; use (\w+) \[", judge(case, tmp_path).text)
        assert list(dict.fromkeys(found)) == row["leads"]
    if "refused" not in row:
        said = read_submission(template(merged(values))).warnings
        wanted = row.get("warned", [])
        assert len(said) == len(wanted), said
        assert all(each.startswith(begin) for each, begin in zip(said, wanted, strict=True))


def test_no_setting_is_brought_twice() -> None:
    texts = [json.dumps(row["values"], sort_keys=True) for row in SEEDS["settings"]]
    assert len(texts) == len(set(texts))
