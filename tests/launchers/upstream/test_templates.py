"""The models and templates of ms-swift that the launcher knows are those of its releases."""

from pathlib import Path

import pytest

from launchers.upstream import templates
from scripts.dev.flags import VENVS
from scripts.dev.templates import TARGET, ask, render
from tests.launchers.training_environment import TRAIN


@pytest.mark.skipif(not all(map(Path.exists, VENVS)), reason=f"no {TRAIN}: run `make setup`")
def test_the_tables_are_made_of_all_releases() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(map(ask, VENVS))


def test_a_template_without_packing_is_told_from_one_with() -> None:
    assert {"gpt_oss", "gemma3_vision"} <= {*templates.UNPACKED}
    assert not {"qwen3", "qwen3_nothinking", "qwen3_vl", "dummy"} & {*templates.UNPACKED}
    assert "GptOssForCausalLM" in templates.UNPACKED_ARCHITECTURES
    assert "Qwen3MoeForCausalLM" not in templates.UNPACKED_ARCHITECTURES
