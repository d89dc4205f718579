"""The comparison of layouts without GPUs, from the command line to the verdict."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launchers.flags import command_line
from launchers.run import kernel_cache
from scripts.helm import ROOT
from tests.gpu import host
from tests.gpu.bench import run as bench_run
from tests.gpu.in_training import in_training
from tests.gpu.model import random_model
from tests.gpu.variants import command, data, plan
from tests.gpu.variants.data import PAIRS
from tests.launchers.training_environment import needs_training


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Fake two H200 and trainings that write at once, with a mode per variant."""
    modes: dict[str, str] = {}

    def torchrun(place: object, *, nproc: int, log_dir: Path, **_: object) -> list[str]:
        script = str(Path(__file__).with_name("fake_variant.py"))
        mode = modes.get(log_dir.parent.name, "agrees")
        return [sys.executable, script, mode, str(log_dir.parent), str(PAIRS)]

    monkeypatch.setattr(command_line, "torchrun", torchrun)
    about = {"gpus": ["NVIDIA H200, 580.1"] * 2, "versions": {}}
    monkeypatch.setattr(host, "about", lambda: about)
    monkeypatch.setattr(bench_run, "swift_folder", lambda: tmp_path / "swift")
    monkeypatch.setattr(command, "LEAD", 0.0)
    monkeypatch.setattr(data, "prepare", lambda *_: None)
    monkeypatch.setattr(random_model, "vocabulary", lambda _: 2048)
    monkeypatch.setattr(kernel_cache, "has_bytecode", lambda: True)
    return modes


def go(tmp_path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    home = ["--home", str(tmp_path / "home"), "--caches", str(tmp_path / "caches")]
    results = tmp_path / "results"
    code = command.main([str(tmp_path / "tok"), str(results), *home, *words])
    record: dict[str, Any] = json.loads((results / "variants-2gpu.json").read_text())
    return code, record


def test_variants_that_agree_end_with_0_and_a_table(
    fake: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, record = go(tmp_path)
    assert code == 0 and record["passed"] and record["gpus_used"] == 2
    assert list(record["runs"]) == [each.name for each in plan.read(2)]
    assert record["variants"]["tp2"]["computed"] == 1600
    assert record["variants"]["tp2"]["grad_norm"] == 2.5
    assert len(record["runs"]["base"]["pairs"]) == PAIRS
    assert record["flags"]["beta"] == "0.1" and record["flags"]["packing_length"] == "8192"
    out = capsys.readouterr().out
    assert out.count(" ok\n") + out.count(" explained\n") >= len(record["runs"]) - 1
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.variants.judge", tmp_path / "results/variants-2gpu.json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in out


def test_one_that_disagrees_or_dies_ends_with_1(
    fake: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake |= {"tp2": "apart", "pp2": "dies", "ep1": "drops"}
    code, record = go(tmp_path, "--only", "tp2,pp2,ep1,half-packs")
    assert code == 1
    seen = record["variants"]
    assert seen["tp2"]["wrong"][0] == "per_token 3.00e-03 is over 2e-03"
    assert seen["ep1"]["wrong"] == [
        "experts should get 1600, were given 1600 and worked on 1599 rows"
    ]
    assert "exit 1" in seen["pp2"]["wrong"][0]
    assert "out of memory" in record["runs"]["pp2"]["tail"]
    assert seen["half-packs"]["wrong"] == seen["base"]["wrong"] == []
    assert "pp2" in capsys.readouterr().out


def test_a_host_without_gpus_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.gpu.variants", "tok", str(tmp_path / "results")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = "variants: variants.yaml is for hosts of 1, 2, 4 GPUs, and this one has 0\n"
    assert done.stderr == said
    assert not (tmp_path / "results").exists()


@needs_training
@pytest.mark.timeout(180)
def test_probes_and_packs_agree_with_ms_swift(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    model = tmp_path / "model"
    small = ["-m", "tests.gpu.model.random_model", str(model), "--tiny"]
    edge = ["-m", "tests.gpu.variants.edge", str(model), str(tmp_path / "folder")]
    in_training(*small, "--tokenizer", str(tokenizer))
    said = in_training(*edge).splitlines()
    shown = (
        "all packs are full, in any order",
        "each pair's sums and tokens, packed and padded",
        "all ranks meet",
        "a row that no expert works on is missed",
    )
    assert [line for line in shown if line not in said] == []
