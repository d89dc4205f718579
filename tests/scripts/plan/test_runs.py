"""Whole plans: of a published run, and of a model on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.helm import ROOT
from scripts.plan.inputs import known_models
from tests.launchers import model_folder
from tests.scripts.plan.test_command import SHIPPED, document

VALUES = ROOT / "values"
LORA = {"rlhf_type": "dpo", "tuner_type": "lora", "lora_rank": 8, "num_train_epochs": 1}
BATCH = {"micro_batch_size": 8, "global_batch_size": 16, "max_length": 2048}
RECOMPUTE: dict[str, Any] = {"recompute_granularity": "full", "recompute_method": "uniform"}
RECOMPUTE |= {"recompute_num_layers": 1}
PUBLISHED = {
    "nodes": 1,
    "gpusPerNode": 2,
    "gpuModel": "a100-80g",
    "workspace": {"existingClaim": "w"},
    "recipe": {
        "model": "hf://Qwen/Qwen3-30B-A3B-Instruct-2507@c0ffee",
        "dataset": ["file:///workspace/pairs.jsonl"],
        "args": LORA | BATCH | RECOMPUTE | {"expert_model_parallel_size": 2},
    },
}
"""ms-swift examples/megatron/lora/dpo.sh: 65 GiB on each of two GPUs."""


@pytest.mark.parametrize("more", [(), ("--pairs", "40000", "--tokens", "1200")])
def test_a_published_run_of_unpacked_rows_fits(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "dpo.yaml").write_text(json.dumps(PUBLISHED))
    code, found = document("-f", str(tmp_path / "dpo.yaml"), *more)
    assert (code, found["refusals"]) == (0, [])
    assert found["plan"]["memory"]["total_gib"] == pytest.approx(65, rel=0.12)
    assert any("are at max_length" in warning for warning in found["warnings"])


@pytest.mark.parametrize(
    ("optimizer", "tokens", "gib"), [("adam", 250, 70), ("dist_muon", 250, 65), ("adam", 0, 85)]
)
def test_published_rows_of_an_unknown_length_are_not_refused(
    optimizer: str, tokens: int, gib: float
) -> None:
    """ms-swift examples/megatron/lora/dense.sh and muon.sh: 16 unpacked rows of 2,048 at most."""
    given = ("--tokens", str(tokens)) if tokens else ()
    sets = ("--set", "gpuModel=a100-80g", "--set", f"recipe.args.optimizer={optimizer}")
    code, found = document("-f", str(VALUES / "recipes" / "sft-2gpu.yaml"), *sets, *given)
    assert (code, found["refusals"]) == (0, [])
    assert found["plan"]["memory"]["total_gib"] == pytest.approx(gib, rel=0.08)
    (said,) = [text for text in found["warnings"] if text.startswith("memory ")]
    assert ("mean length is unknown" in said) == (not tokens)


def test_a_known_length_that_does_not_fit_is_refused() -> None:
    sets = ("--set", "gpuModel=a100-80g", "--tokens", "1500")
    code, found = document("-f", str(VALUES / "recipes" / "sft-2gpu.yaml"), *sets)
    assert code == 1 and "[plan-gpu-memory]" in found["refusals"][0]


def test_the_folder_of_a_local_model_is_judged_by_its_contents(tmp_path: Path) -> None:
    folder = model_folder.write(tmp_path / "m", **known_models()["Qwen3-30B-A3B"])
    model = model_folder.split(folder, [])
    code, found = document(*SHIPPED, "--pairs", "40000", "--set", f"recipe.model=file://{model}")
    assert (code, found["accepted"]) == (1, False)
    (line,) = found["refusals"]
    assert "2 of 2 files of weights are missing" in line and "[model-shard-missing]" in line
