"""Parameters are counted as transformers builds the models whose sizes are said to be known."""

import json
from typing import Any

from launchers.plan import model_config
from launchers.plan.model_config import parse_config
from tests.launchers import warm
from tests.launchers.training_environment import needs_training

pytestmark = needs_training

_EXPERTS = {"num_experts_per_tok": 6, "n_routed_experts": 64, "n_shared_experts": 2}
_SIZES = {
    **dict.fromkeys(("deepseek_v2", "dots1"), _EXPERTS),
    **dict.fromkeys(("hunyuan_v1_dense", "ministral"), {"head_dim": 128}),
}
"""Sizes for which the class of a type has no number."""
_ELSEWHERE = {"deepseek", "kimi_k2"}
"""Types that the model's own code has: as ``deepseek_v3``, and as published."""
_PROGRAM = """
import json, sys, torch
from transformers import AutoModel, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
for kind, sizes in json.loads(sys.argv[1]).items():
    if kind not in CONFIG_MAPPING:  # of a later release
        continue
    config = CONFIG_MAPPING[kind](**sizes)
    auto = AutoModelForCausalLM if type(config) in CAUSAL else AutoModel
    with torch.device("meta"):
        model = auto.from_config(config, attn_implementation="eager")
    built = sum(each.numel() for each in model.parameters())
    made = json.dumps([kind, config.to_dict(), built, auto is AutoModel], default=str)
    print("built", made, sep="\\t", flush=True)
"""


def test_a_known_kind_has_the_parameters_of_its_model() -> None:
    kinds = sorted({*model_config._COUNTED.pattern.split("|")} - _ELSEWHERE)
    given = {kind: _SIZES.get(kind, {}) for kind in kinds}
    said = warm.printed("-c", _PROGRAM, json.dumps(given)).splitlines()
    rows = [line.partition("\t")[2] for line in said if "built\t" in line]
    found = {kind: _ratio(*rest) for kind, *rest in map(json.loads, rows)}
    assert len(found) > 75
    assert {kind: ratio for kind, ratio in found.items() if not 0.91 < ratio < 1.05} == {}


def _ratio(config: dict[str, Any], built: int, is_headless: bool) -> float:
    sizes = parse_config(config)
    head = sizes.embedding_parameters if is_headless and not sizes.tied else 0
    return (sizes.parameters - head) / built
