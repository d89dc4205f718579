"""Values of config.json that transformers refuses are refused; others are not looked at."""

import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from launchers.inputs.models import installed_class
from tests.launchers import model_folder, warm
from tests.launchers.inputs.test_brought_folders import check, refused
from tests.launchers.training_environment import needs_training

YARN = {"rope_type": "yarn", "factor": 4.0}
LLAMA = {"full_attention": {"rope_type": "llama3", "factor": 8.0}}
NUMBER, VALUE, CAUSAL = "model-config-number", "model-config-value", "model-not-causal"


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
@pytest.mark.parametrize(
    "config, id, says",
    [
        ({"model_type": 3}, "model-type-missing", "model_type"),
        ({"model_type": None}, "model-type-missing", "model_type"),
        ({"architectures": "Qwen3ForCausalLM"}, "model-architectures", "a list"),
        ({"architectures": {"0": "Q"}}, "model-architectures", "a list"),
        ({"hidden_size": "8"}, NUMBER, "hidden_size: '8'"),
        ({"num_hidden_layers": 2.0}, NUMBER, "num_hidden_layers: 2.0"),
        ({"num_hidden_layers": 0}, NUMBER, "num_hidden_layers: 0"),
        ({"num_key_value_heads": 0}, NUMBER, "num_key_value_heads: 0"),
        ({"max_position_embeddings": "null"}, NUMBER, "'null'"),
        ({"dtype": "bf16"}, VALUE, "write dtype: bfloat16"),
        ({"torch_dtype": "torch.bfloat16"}, VALUE, "write torch_dtype: bfloat16"),
        ({"use_cache": "True"}, VALUE, "without quotes: use_cache: true"),
        ({"rope_theta": "1e6"}, VALUE, "without quotes: rope_theta: 1e6"),
        ({"rope_scaling": {"type": "yarn"}}, VALUE, "has no factor"),
        ({"rope_scaling": "yarn"}, VALUE, "is not a map"),
        ({"rope_scaling": YARN | {"beta_fast": "32"}}, VALUE, "has texts as beta_fast"),
        ({"eos_token_id": "2"}, VALUE, "without quotes: eos_token_id: 2"),
        ({"rope_parameters": LLAMA}, VALUE, "has no low_freq_factor, high_freq_factor"),
        ({"layer_types": ["full_attention"] * 3}, VALUE, "a list of 3"),
        ({"num_experts": 2, "num_experts_per_tok": 3}, VALUE, "more than its 2 experts"),
        ({"num_attention_heads": 4, "num_key_value_heads": 3}, VALUE, "num_attention_heads: 4"),
        ({"eos_token_id": ["2"]}, VALUE, "eos_token_id: [2]"),
        ({"architectures": ["BertForMaskedLM"]}, CAUSAL, "BertForMaskedLM"),
    ],
)
def test_a_value_is_refused_with_what_to_write(
    model: Path, backend: str, config: dict[str, Any], id: str, says: str
) -> None:
    model_folder.write(model, **config)
    error = refused(model, backend)
    assert error.id == id and says in f"{error.cause}; {error.remedy}"


@pytest.mark.parametrize("keys", ['"pad_token_id": 16', '"hidden_size": null'])
def test_what_transformers_alone_reads_is_judged_for_it(model: Path, keys: str) -> None:
    file = model_folder.write(model) / "config.json"
    file.write_text(f"{file.read_text()[:-1]}, {keys}}}")
    assert refused(model, "transformers").id == VALUE


def test_an_encoder_and_decoder_is_for_the_transformers_trainers_alone(model: Path) -> None:
    model_folder.write(model, is_encoder_decoder=True)
    assert refused(model).id == CAUSAL
    check(model, "transformers")


@pytest.mark.parametrize(
    "config",
    [
        {"seed": "42", "date": "2026", "model_size": "7", "rope_scaling": False},
        {"rope_scaling": YARN, "dtype": "bfloat16", "transformers_version": "5.0"},
        {"rope_scaling": {"rope_type": "default"}, "pad_token_id": 16},
        {"layer_types": ["a"] * 3, "num_nextn_predict_layers": 1},
    ],
)
def test_what_is_taken_refuses_nothing(model: Path, config: dict[str, Any]) -> None:
    model_folder.write(model, **config)
    check(model)


@needs_training
def test_the_installed_class_judges_what_it_reads(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(model)  # not judged here: transformers is not installed
    monkeypatch.setattr(util, "find_spec", lambda name: name)
    monkeypatch.setattr(sys, "executable", str(warm.python()))
    rope = {"rope_type": "ntk", "factor": 2.0, "rope_theta": 1e4}
    for config, says in (
        ({"num_hidden_layers": 1}, ""),
        ({"rope_scaling": rope}, "(rope_scaling.rope_type)"),
        ({"max_window_layers": "28"}, "max_window_layers"),
    ):
        made = {"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16}
        found = installed_class.refused(made | config)
        assert (says in found) and bool(found) == bool(says)
    own = {"AutoConfig": "a.B"}
    assert installed_class.refused({"model_type": "qwen3", "head_dim": "x", "auto_map": own}) == ""
