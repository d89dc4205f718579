from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from launchers.progress import Progress


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


def test_a_run_that_finds_itself_finished_keeps_what_was_told_of_training(tmp_path: Path) -> None:
    first = Progress(path=tmp_path / "progress.json", run="r", digest="d")
    first.attempt, first.training = 2, {"step": 30, "loss": 0.5}
    first.finish("succeeded")
    again = Progress(path=tmp_path / "progress.json", run="r", digest="d")
    again.begin("train")
    assert read(tmp_path / "progress.json")["training"] == {}
    again.keep_training()
    again.finish("succeeded")
    found = read(tmp_path / "progress.json")
    assert (found["attempt"], found["training"]) == (2, {"step": 30, "loss": 0.5})
