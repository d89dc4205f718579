"""The check of a merged export, on synthetic exports, one of them in ms-swift's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.launcher import merged
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

MAKE = """
import json, sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from tests.gpu.launcher import merged

torch.manual_seed(0)
fault, home = sys.argv[1], Path(sys.argv[2])
model, export = home / "model", home / "export"
(export / "adapter").mkdir(parents=True)
model.mkdir()
weights = {f"model.layers.{n}.mlp.gate_proj.weight": torch.randn(64, 32).bfloat16() for n in (0, 1)}
weights["model.norm.weight"] = torch.randn(32).bfloat16()
save_file(weights, model / "model.safetensors")
adapter, whole = {}, dict(weights)
for name in list(weights)[:2]:
    down, up = torch.randn(8, 32).bfloat16() / 30, torch.randn(64, 8).bfloat16() / 30
    module = f"base_model.model.{name.removesuffix('.weight')}"
    adapter |= {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up}
    scale = {"unscaled": 1, "unmerged": 0}.get(fault, 4)
    whole[name] = weights[name] + (up @ down) * scale  # bf16, as mcore_bridge/tuners/lora.py
if fault == "other":
    whole["model.norm.weight"] = whole["model.norm.weight"] + 1
if fault == "missing":
    del whole["model.norm.weight"]
save_file(adapter, export / "adapter" / "adapter_model.safetensors")
(export / "adapter" / "adapter_config.json").write_text(json.dumps({"r": 8, "lora_alpha": 32}))
save_file(whole, export / "model.safetensors")
assert merged.adapter_of(export) == export / "adapter"
print(json.dumps(merged.compare(export, export / "adapter", model)))
"""


@needs_training
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("none", ""),
        ("unscaled", "miss model and adapter"),
        ("unmerged", "miss model and adapter"),
        ("other", "changed model.norm.weight"),
        ("missing", "changed model.norm.weight"),
    ],
)
def test_only_the_model_with_its_adapter_in_it_is_a_merged_export(
    tmp_path: Path, fault: str, says: str
) -> None:
    program = f"import sys; sys.argv[1:] = [{fault!r}, {str(tmp_path)!r}]{MAKE}"
    seen: dict[str, Any] = json.loads(fake_upstream.run(tmp_path, program))
    assert (seen["tensors"], seen["adapted"]) == (3, 2)
    problems = merged.complaints(seen)
    assert [says in line for line in problems] == ([True] if says else []), seen
