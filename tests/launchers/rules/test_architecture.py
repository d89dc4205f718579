"""Rules of what a config.json says apart from sizes: templates, modalities, the GPUs."""

from dataclasses import replace
from typing import Any

import pytest

from launchers.config.recipe import REFERENCE
from launchers.rules import table
from tests.launchers.rules.test_table import GANG, QWEN, read, reported


@pytest.mark.parametrize(
    "args, ids",
    [
        ({"packing": True}, ["template-packing"]),
        ({}, ["template-padding-free"]),
        ({"padding_free": False}, []),
        ({"packing": True, "template": "qwen3"}, []),
        ({"packing": True, "template": "gpt_oss"}, ["template-packing"]),
        ({"packing": True, "external_plugins": "mine.py"}, []),
    ],
)
def test_a_model_whose_template_has_no_packing_is_refused_it(
    args: dict[str, Any], ids: list[str]
) -> None:
    assert reported(replace(QWEN, architecture="GptOssForCausalLM"), **args) == ids


def test_the_reference_of_a_multimodal_model_is_not_precomputed() -> None:
    multimodal = replace(QWEN, multimodal=True)
    once = replace(GANG, own={**GANG.own, REFERENCE: "precomputed"})
    found = table.check(read(), replace(once, model_config=multimodal))
    assert [refusal.id for refusal in found] == ["precomputed-multimodal"]
    for sizes, context in ((multimodal, GANG), (QWEN, once)):
        assert table.check(read(), replace(context, model_config=sizes)) == []


def test_nodes_of_one_nvlink_domain_are_no_network() -> None:
    wide = read(tp=16, ep=16, sp=True)
    for gpu, ids in (("h200", {"tensor-across-nodes", "experts-across-nodes"}), ("gb200", set())):
        found = {each.id for each in table.warn(wide, replace(GANG, gpu_model=gpu))}
        assert {id for id in found if id.endswith("across-nodes")} == ids
