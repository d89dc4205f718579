"""The main job for real: chart, launcher and ms-swift on two nodes, and an independent
evaluation."""

import ast
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

import pytest

from launchers.metrics import reader
from launchers.metrics.rows import Row
from launchers.metrics.trainer_log import LOG
from launchers.storage.checkpoint import COMPLETE
from tests.launchers.trainer_log import read_losses

pytestmark = pytest.mark.demo
ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "megatron_dpo" / "example.ipynb"
AFTER = 54
"""A step, after that of the first checkpoint, that finishes before the interruption."""


def start(folder: Path) -> Popen[str]:
    words = [sys.executable, "-m", "scripts.cli", "demo", "--folder", str(folder)]
    env = {**os.environ, "COLUMNS": "120"}
    return Popen(words, cwd=ROOT, env=env, stdout=PIPE, stderr=STDOUT, text=True)


def finish(demo: Popen[str]) -> str:
    output, _ = demo.communicate()
    assert demo.returncode == 0, output
    return output


def rows(home: Path) -> Iterator[tuple[int, float]]:
    """Each logged step and its loss, in the order of the file."""
    for step in read_losses(home / "checkpoints" / LOG):
        yield step.number, step.row["loss"]


def wait_for_step(home: Path, step: int, demo: Popen[str]) -> None:
    stop = time.monotonic() + 300
    while not any(done >= step for done, _ in rows(home)):
        assert demo.poll() is None, finish(demo)
        assert time.monotonic() < stop, f"no step {step}"
        time.sleep(0.05)


def states(home: Path) -> dict[str, str]:
    stages = json.loads((home / "progress.json").read_text())["stages"]
    return {name: stage["state"] for name, stage in stages.items()}


def cut_after(home: Path) -> int:
    """The last step of the first attempt."""
    return max(row.step for row in reader.read(home / "metrics.jsonl", Row) if row.attempt == 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that was stopped after its first checkpoint and then finished."""
    made = tmp_path_factory.mktemp("two") / "demo"
    home = made / "workspace" / "runs" / "demo"
    cut = start(made)
    wait_for_step(home, AFTER, cut)
    cut.send_signal(signal.SIGTERM)
    output, _ = cut.communicate(timeout=60)
    assert cut.returncode == 128 + signal.SIGTERM, output
    assert states(home)["train"] == "failed"
    finish(start(made))
    return made


@pytest.mark.timeout(700)
def test_two_nodes_learn_the_preference(folder: Path) -> None:
    figures = json.loads((folder / "score.json").read_text())["score"]
    assert figures["accuracy_before"] < 0.6
    assert figures["accuracy_after"] >= 0.95
    assert figures["margin_after"] > 1
    home = folder / "workspace" / "runs" / "demo"
    assert (home / "export" / "model.safetensors").exists()
    kept = dict.fromkeys(("clone", "download"), "up to date")
    assert states(home) == {**kept, "convert": "skipped", "train": "done"}
    # Both nodes trained, in both attempts.
    assert len(list((home / "attempts").glob("[12]/node-[01].log"))) == 4


def test_a_run_that_was_cut_repeats_no_step(folder: Path) -> None:
    home = folder / "workspace" / "runs" / "demo"
    logged = [step for step, _ in rows(home)]
    assert logged == sorted(set(logged))
    cut = cut_after(home)
    assert cut >= AFTER and cut in logged
    assert (home / "checkpoints" / f"checkpoint-{cut}" / COMPLETE).exists()


def test_every_step_left_a_row_of_the_attempt_that_counts(folder: Path) -> None:
    home = folder / "workspace" / "runs" / "demo"
    found = reader.read(home / "metrics.jsonl", Row)
    assert [row.step for row in found] == list(range(1, found[-1].total + 1))
    cut = cut_after(home)
    assert [row.attempt for row in found] == [1 if row.step <= cut else 2 for row in found]
    logged = dict(rows(home))
    reported = {row.step: row.values["loss"] for row in found if "loss" in row.values}
    assert reported == pytest.approx(logged, abs=1e-8)  # ms-swift rounds
    for row in found:
        assert (row.world, row.sequences) == (2, 32)
        assert row.tokens and row.squares and row.tokens < row.squares
        assert row.tokens_per_second_per_gpu == pytest.approx(row.tokens / row.seconds / 2)
        assert row.data_seconds is not None and 0 < row.data_seconds < row.seconds


def test_progress_says_how_training_ended(folder: Path) -> None:
    home = folder / "workspace" / "runs" / "demo"
    last = reader.read(home / "metrics.jsonl", Row)[-1]
    training = json.loads((home / "progress.json").read_text())["training"]
    assert (training["step"], training["total"], training["attempt"]) == (last.step, last.step, 2)
    values = (last.values["loss"], last.values["rewards/margins"])
    assert (training["loss"], training["margin"]) == values
    assert 0 < training["goodput"] < 1


def test_the_export_has_what_the_trainer_computes_in_float32(folder: Path) -> None:
    home = folder / "workspace" / "runs" / "demo"
    compared = json.loads((home / "export.json").read_text())["compared"]
    assert compared["pairs"] == 64 and compared["held_out"]
    assert compared["difference"] <= compared["bound"] == 1e-4


def test_the_report_shows_both_attempts(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    assert "Trained 100 of 100 steps in 2 attempts." in page
    assert f"steps 1 to {cut_after(folder / 'workspace' / 'runs' / 'demo')}. Exit code 75" in page


def test_a_finished_run_has_nothing_to_do(folder: Path) -> None:
    output = finish(start(folder))
    home = folder / "workspace" / "runs" / "demo"
    done = states(home)
    assert {done[name] for name in ("clone", "download", "train")} == {"up to date"}
    assert output.count("up to date") >= 5
    assert json.loads((folder / "score.json").read_text())["score"]["accuracy_after"] >= 0.95


def test_the_notebook_runs_on_the_demo(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MEGATRON_DPO_WORKSPACE", str(folder / "workspace"))
    monkeypatch.setenv("MEGATRON_DPO_RUN", "demo")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    accepted, why, status, report = run_cells(NOTEBOOK)[-4:]
    assert '-nodes: "2"  # hosts' in capsys.readouterr().out
    assert accepted == (True, ())
    total = reader.read(folder / "workspace/runs/demo/metrics.jsonl", Row)[-1].total
    assert why[0] == "done" and status[:2] == (total, total)
    html = report._repr_html_()
    assert html.startswith("<iframe srcdoc=") and "&lt;svg" in html and "<script" not in html


def run_cells(notebook: Path) -> list[Any]:
    """Run the code cells; return the value of each last line that is an expression."""
    names: dict[str, Any] = {}
    shown = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(notebook), "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), str(notebook), "eval"), names))
    return shown
