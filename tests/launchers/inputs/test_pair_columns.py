"""The remedy keeps the prompt; ms-swift itself confirms it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launchers.inputs.dataset_check import pair_columns_remedy
from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training

ASKED = {"role": "user", "content": "q"}
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("good", "bad"))
TEXTS = {"prompt": "q", "chosen": "good", "rejected": "bad"}
WHOLE = {"prompt": "q", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}
SHARED = {
    "chosen": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "good"}],
    "rejected": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "bad"}],
}
EXPLICIT = {"prompt": [ASKED], "chosen": [GOOD], "rejected": [BAD]}

MAPPED = """
import json, sys
from datasets import Dataset
from swift.dataset import AutoPreprocessor
from swift.template.template_inputs import TemplateInputs
found = []
for row, columns in json.load(sys.stdin):
    make = AutoPreprocessor(columns=columns)
    rows = make(Dataset.from_list([row]), load_from_cache_file=False, enable_auto_mapping=True)
    inputs = TemplateInputs.from_dict({k: v for k, v in rows[0].items() if v is not None})
    found.append([inputs.chosen.messages, inputs.rejected.messages])
print(json.dumps(found))
"""


def advised(row: dict[str, Any]) -> dict[str, str]:
    """Return the map of columns that a remedy gives."""
    _, _, text = pair_columns_remedy(row).partition("recipe.args.columns: {")
    return dict(pair.split(": ") for pair in text.rstrip("}").split(", "))


@pytest.mark.parametrize(
    "row",
    [
        EXPLICIT,
        {**EXPLICIT, "prompt": "q"},
        {**WHOLE, "rejected": [BAD]},
        {**SHARED, "chosen": SHARED["chosen"][1:]},
        {**TEXTS, "prompt": [ASKED]},
        {**TEXTS, "question": "q"},
        {"chosen": "q good", "rejected": "q bad"},
    ],
)
def test_a_map_by_which_the_prompt_is_lost_is_not_advised(row: dict[str, Any]) -> None:
    assert "recipe.args.columns" not in pair_columns_remedy(row)
    assert "recipe.args.external_plugins" in pair_columns_remedy(row)


@needs_training
def test_ms_swift_keeps_the_prompt_with_the_advised_map(tmp_path: Path) -> None:
    cases = [[row, advised(row)] for row in (TEXTS, WHOLE, SHARED)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    env |= {"HF_HOME": str(tmp_path), "MODELSCOPE_CACHE": str(tmp_path)}
    done = subprocess.run(
        [str(PYTHON), "-c", MAPPED],
        input=json.dumps(cases),
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [[[ASKED, GOOD], [ASKED, BAD]]] * len(cases)
