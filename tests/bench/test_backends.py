"""Both trainers on a dense model, without GPUs: from the command line to the result."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.dev import results
from tests.bench import backends, host
from tests.bench.speed import run as bench_run
from tests.bench.speed.profiles import ROOT

ABOUT = {"when": "2026-11-26T19:00:00+00:00", "gpus": ["NVIDIA H100 80GB HBM3, 580.1"]}
STEPS = 2
LORA = "lora:values/recipes/lora-ddp.yaml"
QLORA = "qlora:values/recipes/qlora.yaml"


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run the command with a fake H100 and a trainer that only writes its log."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(host, "about", lambda: dict(ABOUT))
    monkeypatch.setattr(backends, "prepare", lambda *_: None)

    def torchrun(bench: object, parsed: Any, place: object, folder: Path, given: Any) -> list[str]:
        assert given["dataset_shuffle"] == "false" and given["max_steps"] == str(STEPS)
        rows = [{"loss": 2.0 - n, "memory(GiB)": 14.5 + n} for n in range(STEPS)]
        rows = rows[: STEPS - ("quant_bits" in parsed.args)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write = f"open({str(folder / 'logging.jsonl')!r}, 'w').write({text!r}); print('no memory')"
        return [sys.executable, "-c", write]

    monkeypatch.setattr(bench_run, "torchrun", torchrun)

    def run(profiles: Sequence[str]) -> tuple[int, dict[str, Any]]:
        words = ["t", str(tmp_path / "r"), "--model", "Qwen2.5-7B", "--steps", str(STEPS)]
        words += ["--home", str(tmp_path / "home")]
        code = backends.main([*words, *(each for p in profiles for each in ("--profile", p))])
        return code, results.read(tmp_path / "r")["backends"]["runs"]

    return run


def test_losses_and_memory_stand_beside_what_plan_predicts(go: Any) -> None:
    code, runs = go([LORA])
    assert code == 0
    lora = runs["lora"]
    assert (lora["losses"], lora["trainer_gib"]) == ([2.0, 1.0], 15.5)
    assert lora["planned_gib"] == pytest.approx(14.3, abs=0.1)
    assert lora["backend"] == "transformers" and lora["tail"] == ""


def test_a_run_that_ends_early_keeps_its_output_and_ends_with_1(go: Any) -> None:
    code, runs = go([QLORA, LORA])
    assert code == 1
    assert not runs["qlora"]["finished"] and runs["qlora"]["tail"] == "no memory\n"
    assert runs["lora"]["finished"]


def test_a_model_that_is_not_dense_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(host, "about", lambda: dict(ABOUT))
    words = ["t", str(tmp_path / "r"), "--model", "Qwen3-30B-A3B", "--profile", LORA]
    assert backends.main([*words, "--home", str(tmp_path / "home")]) == 2
    assert "write Qwen2.5-14B" in capsys.readouterr().err and not (tmp_path / "home").exists()
