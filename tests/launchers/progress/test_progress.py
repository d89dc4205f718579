from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.progress.progress import Progress


def read(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def test_the_file_follows_the_stages_in_their_order(tmp_path: Path) -> None:
    progress = Progress(path=tmp_path / "runs" / "r" / "progress.json", run="r", digest="d")
    progress.begin("download")
    assert read(progress.path)["stages"]["download"]["state"] == "running"
    progress.end("done")
    progress.begin("clone")
    progress.end("skipped", "no code.url")
    progress.finish("succeeded")
    document = read(progress.path)
    assert list(document["stages"]) == ["clone", "download"]
    assert document["stages"]["clone"]["why"] == "no code.url"
    assert document["state"] == "succeeded"


def test_a_failure_ends_the_stage_that_was_under_way(tmp_path: Path) -> None:
    progress = Progress(path=tmp_path / "progress.json", run="r", digest="d")
    progress.begin("clone")
    progress.end("done")
    progress.begin("download")
    progress.finish("failed", "404 for hf://o/m", 66)
    document = read(progress.path)
    assert (document["state"], document["code"]) == ("failed", 66)
    assert (document["why"], document["digest"]) == ("404 for hf://o/m", "d")
    stages = document["stages"]
    assert stages["clone"]["state"] == "done"
    assert (stages["download"]["state"], stages["download"]["why"]) == (
        "failed",
        "404 for hf://o/m",
    )


def test_an_interrupted_start_keeps_the_state_of_training(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    first = Progress(path=path, run="r", digest="d")
    first.begin_training(2)
    first.training = {"step": 30, "loss": 0.5}
    first.finish("succeeded")
    Progress(path=path, run="r", digest="d").begin("download")  # and is killed
    Progress(path=path, run="r", digest="d").finish("failed", "404 for hf://o/m", 66)
    again = Progress(path=path, run="r", digest="d")
    again.finish("succeeded")
    found = read(path)
    assert (found["attempt"], found["training"]) == (2, {"step": 30, "loss": 0.5})
    again.begin_training(3)
    assert (read(path)["attempt"], read(path)["training"]) == (3, {})


@pytest.mark.parametrize("text", ["[]", '{"training": 1, "attempt": "x"}', '{"attempt": null}'])
def test_another_ones_file_is_no_training(tmp_path: Path, text: str) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text)
    Progress(path=path, run="r", digest="d").begin("clone")
    assert (read(path)["attempt"], read(path)["training"]) == (0, {})
