"""Models as transformers saves them pass; with a config.json of other sizes they are refused."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from launchers.config.flag_value import Value
from launchers.config.recipe import Recipe
from launchers.exits import LaunchError
from launchers.inputs import model_files
from launchers.plan.model_config import EXPERTS, levels
from scripts.helm import ROOT
from tests.launchers import model_folder, warm
from tests.launchers.inputs.saved_models import FAMILIES
from tests.launchers.training_environment import needs_training

pytestmark = needs_training
SEEN = {
    "hidden_size": FAMILIES,
    "vocab_size": FAMILIES,
    "num_attention_heads": FAMILIES.keys() - {"deepseek_v3", "phi3"},
    "num_key_value_heads": FAMILIES.keys() - {"deepseek_v3", "phi3"},
    "intermediate_size": ("qwen3", "llama", "gemma3", "glm4_moe", "deepseek_v3"),
    "moe_intermediate_size": ("qwen3_moe", "qwen3_next", "glm4_moe", "deepseek_v3"),
    **dict.fromkeys(EXPERTS, FAMILIES.keys() - {"qwen3", "llama", "phi3", "gemma3"}),
}
"""Families whose tensors show a size: others have none of it, or fused with another."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("saved")
    words = [str(warm.python()), "-m", "tests.launchers.inputs.saved_models", str(home)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in FAMILIES:
        (home / kind / "tokenizer.json").write_text(model_folder.TOKENIZER)
    return home


def check(model: Path) -> None:
    args: dict[str, Value] = {"template": "qwen3", "model_type": "qwen3"}
    recipe = Recipe(backend="megatron", task="rlhf", model="file:///m", dataset=(), args=args)
    model_files.check_folder(model, "o/m", recipe)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_saved_model_passes_and_one_with_other_sizes_is_refused(saved: Path, kind: str) -> None:
    file = saved / kind / "config.json"
    text = file.read_text()
    check(saved / kind)
    refused, seen = set(), set()
    for size, kinds in SEEN.items():
        config = json.loads(text)
        sizes = levels(config)[-1]
        if size in sizes:
            seen |= {size} if kind in kinds else set()
            # heads of keys and values have to divide those of queries
            more = 0 if size == "num_key_value_heads" else 2
            sizes[size] = 2 * sizes[size] + more  # type: ignore[index]
            file.write_text(json.dumps(config))
            try:
                check(saved / kind)
            except LaunchError as no:
                assert no.id in ("model-shapes", "model-vocabulary", "model-experts"), no
                refused.add(size)
    file.write_text(text)
    assert refused == seen
