"""The main job, for real: the chart, the launcher, ms-swift on two nodes, an own judge."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def megatron_dpo(*words: str) -> str:
    command = [sys.executable, "-m", "scripts.cli", *words]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.demo
@pytest.mark.timeout(300)
def test_two_nodes_learn_the_preference_and_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    first = megatron_dpo("demo", "--folder", str(folder))
    figures = json.loads((folder / "demo.json").read_text())
    assert figures["accuracy_before"] < 0.6
    assert figures["accuracy_after"] >= 0.95
    assert figures["margin_after"] > 1
    home = folder / "workspace" / "runs" / "demo"
    assert (home / "export" / "model.safetensors").exists()
    stages = json.loads((home / "progress.json").read_text())["stages"]
    assert [stages[name]["state"] for name in ("clone", "download", "convert", "train")] == [
        "done",
        "done",
        "skipped",
        "done",
    ]
    assert "skipped" in first
    # Both nodes trained: each has its own log of this attempt.
    assert len(list((home / "attempts" / "1").glob("node-*.log"))) == 2

    second = megatron_dpo("demo", "--folder", str(folder))
    stages = json.loads((home / "progress.json").read_text())["stages"]
    assert {stages[name]["state"] for name in ("clone", "download", "train")} == {"up to date"}
    assert second.count("up to date") >= 5
    assert json.loads((folder / "demo.json").read_text())["accuracy_after"] >= 0.95
