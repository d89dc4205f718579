"""A run that an earlier version started is read, and resumed by this one."""

from pathlib import Path

import pytest
import yaml

from launchers.exits import Exit
from scripts.observe.workspace import read_run
from scripts.report import reading
from tests.launchers import model_folder
from tests.launchers.pods import Pods

LEFT = Path(__file__).with_name("left_by_0.1.0.yaml")
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
    [(status, output)] = pods.all(SKIP_DOWNLOAD="1")
    assert status == Exit.OK, output
    argv = pods.argv(0, attempt=2)
    checkpoint = pods.run / "checkpoints" / "checkpoint-3"
    assert argv[argv.index("--resume_from_checkpoint") + 1] == str(checkpoint)
    assert pods.progress()["state"] == "succeeded"


def test_it_is_still_known_by_its_recipe(pods: Pods) -> None:
    document = yaml.safe_load((pods.folder / "recipe.yaml").read_text(encoding="utf-8"))
    pods.write_recipe(**{**document, **CHANGED})
    [(status, output)] = pods.all(SKIP_DOWNLOAD="1")
    assert status == Exit.CONFIG
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
