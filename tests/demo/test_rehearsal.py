"""A rehearsal for real: chart, launcher and ms-swift on two nodes of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scripts.demo import command as demo
from scripts.demo import sources
from scripts.demo.sources import Sources
from scripts.helm import ROOT
from scripts.local.runner import training_python

pytestmark = pytest.mark.demo
RUN = "demo-rehearsal"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace after `megatron-dpo rehearse --local` of the demo's values."""
    root = tmp_path_factory.mktemp("rehearsal")
    made = Sources(root=root / "sources")
    demo.prepare(made, training_python(ROOT, None), Console(quiet=True))
    values = [word for file in (sources.VALUES, made.values) for word in ("-f", str(file))]
    words = [sys.executable, "-m", "scripts.cli", "rehearse", "--local", "--run", "demo", *values]
    words += ["--workspace", str(root / "workspace")]
    env = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "restart in place attempt=2" in done.stdout
    assert "verdict: " in done.stdout
    return root / "workspace"


def report(workspace: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((workspace / "runs" / RUN / "rehearsal.json").read_text())
    return found


@pytest.mark.timeout(900)
def test_it_trained_saved_was_killed_and_resumed(workspace: Path) -> None:
    measured = report(workspace)["measured"]
    assert (measured["killed_rank"], measured["resumed_from"]) == (1, 2)
    assert 0 < measured["restart_seconds"] < 600
    for name in ("step_seconds", "tokens_per_second_per_gpu", "save_seconds"):
        assert measured[name] > 0, name
    assert measured["checkpoint_bytes"] > 3 * 557_824 * 4  # weights and both moments in fp32
    assert [host["rank"] for host in measured["hosts"]] == [0, 1]
    for host in measured["hosts"]:
        assert 0 < host["peak_at_save"] <= host["peak"] < host["limit"]


def test_no_figure_fails_and_the_export_was_loaded_and_run(workspace: Path) -> None:
    found = report(workspace)
    verdicts = {figure["id"]: figure["verdict"] for figure in found["figures"]}
    wanted = "resume host-memory speed save grace disk evaluation export"
    assert verdicts.keys() == set(wanted.split())
    assert "fail" not in verdicts.values()
    export = found["measured"]["export"]
    assert (export["model"], export["problems"]) == ("Qwen3ForCausalLM", [])


def test_it_leaves_the_caches_logs_and_the_report(workspace: Path) -> None:
    own = workspace / "runs" / f"{RUN}.rehearsal"
    assert not (own / "checkpoints").exists() and not (own / "export").exists()
    assert sorted(path.name for path in (own / "attempts").iterdir()) == ["1", "2"]
    assert [path.name for path in (workspace / "runs" / RUN).iterdir()] == ["rehearsal.json"]
    assert any((workspace / "models").iterdir()) and any((workspace / "datasets").iterdir())
