"""Files of the training code that flags name: a missing one ends the run after the clone."""

from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit
from tests.launchers.git_server import repository
from tests.launchers.pods import Pods

FILES = ("plugins/pairs.py", "data/val.jsonl")


@pytest.fixture
def code(tmp_path: Path) -> dict[str, str]:
    repository(tmp_path / "code", dict.fromkeys(FILES, ""))
    return {"DPO_CODE_URL": f"file://{tmp_path / 'code'}", "DPO_CODE_REF": "main"}


@pytest.mark.parametrize(
    ("flag", "given", "missing"),
    [
        ("external_plugins", ["plugins/pairs.py", "plugins/pears.py"], "plugins/pears.py"),
        ("val_dataset", ["data/val.jsonl", "val.jsonl#9"], "val.jsonl"),
    ],
)
def test_a_file_that_the_clone_does_not_have(
    code: dict[str, str], tmp_path: Path, flag: str, given: list[str], missing: str
) -> None:
    pods = Pods(tmp_path, nodes=1)
    args: dict[str, Any] = {"external_plugins": "plugins/pairs.py", flag: given}
    pods.write_recipe(args={"tuner_type": "full", **args})
    pods.ended(Exit.INPUT_MISSING, **code)
    message = pods.message(0)
    assert (message["stage"], message["id"]) == ("clone", "code-file-missing")
    assert message["cause"] == f"recipe.args.{flag}: the clone has no file {missing!r}"
    assert not (tmp_path / "workspace" / "models").exists()


def test_training_gets_held_out_rows_of_the_clone(code: dict[str, str], tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1)
    args = {"external_plugins": "plugins/pairs.py", "val_dataset": "data/val.jsonl#9"}
    pods.write_recipe(args={"tuner_type": "full", **args})
    pods.ended(**code)
    held_out = Path(pods.flag("val_dataset"))
    assert held_out.name == "val.jsonl#9"
    assert (held_out.parent / "val.jsonl").is_file()
