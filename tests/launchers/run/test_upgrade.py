"""A run that an earlier version started is read, and resumed by this one."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from launchers.config.recipe_file import load
from launchers.exits import Exit
from scripts.observe.workspace import read_run
from scripts.report import reading
from tests.launchers import model_folder
from tests.launchers.pods import PAIR, Pods

LEFT = Path(__file__).with_name("left_by_0.1.0.yaml")
BARE = {"SKIP_PREFLIGHT": "1", "SKIP_CONVERT": "1", "DPO_GPUS_PER_NODE": "0"}
CHANGED = {"args": {"learning_rate": "2e-3", "tuner_type": "full"}}


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    """Return the pods of a run of an earlier version, with its workspace."""
    pods = Pods(tmp_path, nodes=1)
    pods.write_recipe(model="hf://org/model@v1", dataset=["hf://org/pairs@v1/pairs.jsonl"])
    for name, text in yaml.safe_load(LEFT.read_text(encoding="utf-8")).items():
        path = tmp_path / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # the stand-in of that time left a text in place of weights
    model_folder.write(tmp_path / "workspace" / "models" / "hf--org--model@v1" / "model")
    return pods


def test_its_files_are_read(pods: Pods) -> None:
    seen = read_run(pods.folder / "workspace", "r")
    assert [each.step for each in seen.checkpoints] == [3]
    record = reading.read(reading.find("r", pods.folder / "workspace"))
    assert [each.number for each in record.attempts] == [1]
    end = record.attempts[0].end
    assert end is not None and end.code == Exit.TERMINATED


def test_it_resumes_from_its_checkpoint(pods: Pods) -> None:
    pods.ended(SKIP_DOWNLOAD="1")
    checkpoint = pods.run / "checkpoints" / "checkpoint-3"
    assert pods.flag("resume_from_checkpoint", attempt=2) == str(checkpoint)
    assert pods.progress()["state"] == "succeeded"


def test_it_is_still_known_by_its_recipe(pods: Pods) -> None:
    document = yaml.safe_load((pods.folder / "recipe.yaml").read_text(encoding="utf-8"))
    pods.write_recipe(**{**document, **CHANGED})
    [output] = pods.ended(Exit.CONFIG, SKIP_DOWNLOAD="1")
    assert "id=run-changed" in output


@pytest.mark.parametrize(
    ("left", "id"), [(b"MOMENTS", "checkpoint-damaged"), (b"mom", "checkpoint-file")]
)
def test_a_damaged_checkpoint_is_not_resumed(pods: Pods, left: bytes, id: str) -> None:
    checkpoint = pods.run / "checkpoints" / "checkpoint-3"
    (checkpoint / "optimizer.pt").write_bytes(left)
    [(_, output)] = pods.all(SKIP_DOWNLOAD="1")
    assert "--resume_from_checkpoint" not in pods.argv(0, attempt=2)
    assert f"id={id}" in output
    assert (checkpoint / "DAMAGED.json").exists() is (id == "checkpoint-damaged")


@pytest.mark.parametrize("began", [None, False, True])
def test_all_ranks_compute_prompts_as_the_run_began(tmp_path: Path, began: bool | None) -> None:
    """One without a record (None) begins here; then each is started again by its record."""
    pods = Pods(tmp_path)
    (tmp_path / "sources" / "pairs.jsonl").write_text(PAIR * 16)
    pods.write_recipe(backend="megatron", args={"packing": True, "num_train_epochs": 1})
    if began is not None:
        recipe = replace(load(tmp_path / "recipe.yaml"), prompt_once=began)
        pods.run.mkdir(parents=True)
        (pods.run / "inputs.json").write_text(json.dumps({"recipe": recipe.identity}))
    pods.train = "0.1:save,1.1:late-kill:9"
    pods.all(**BARE)
    seen = pods.progress()["prompts"]
    pods.train = ""
    pods.ended(**BARE)
    rule = "computed twice: not measured with an unknown GPU (set gpuModel)"
    record = f"computed {'once' if began else 'twice'}: as the run began"
    assert [seen, pods.progress()["prompts"]] == [rule if began is None else record, record]
    files = sorted(pods.run.glob("attempts/*/node-*/none_x/attempt_0/0/env.json"))
    names = [json.loads(file.read_text())["DPO_FEATURES"].split(",") for file in files]
    assert [("prompt_once" in each) for each in names] == [bool(began)] * 4
    pods.alone("verify", **BARE)
