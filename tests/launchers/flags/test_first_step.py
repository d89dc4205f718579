"""Recipes whose first step is judged, and those whose policy may differ from the reference."""

from typing import Any

import pytest

from launchers.config.recipe import Recipe, parse
from launchers.flags import features, first_step
from tests.launchers.recipes import FIELDS

LORA = {"tuner_type": "lora"}


def recipe(args: dict[str, Any], **fields: Any) -> Recipe:
    return parse({**FIELDS, "args": args, **fields})


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        ({}, {}),
        ({}, {"reference": "precomputed"}),
        ({"label_smoothing": 0.1, "rpo_alpha": 1}, {}),
        (LORA, {}),
        ({**LORA, "lora_dropout": 0.1, "init_weights": "gaussian"}, {}),
        ({**LORA, "adapters": ["/a"], "ref_adapters": "/a"}, {}),
        ({**LORA, "mcore_adapter": "/a", "mcore_ref_adapter": "/a", "adapters": ["/b"]}, {}),
        ({}, {"backend": "transformers"}),
        ({"ld_alpha": 1.0}, {"backend": "transformers"}),
        ({"neftune_noise_alpha": 0}, {"backend": "transformers"}),
        ({"loss_type": ["sigmoid", "hinge"]}, {"backend": "transformers"}),
        ({"moe_expert_capacity_factor": 1.5}, {}),  # the same tokens are dropped online
    ],
)
def test_judged(args: dict[str, Any], fields: dict[str, Any]) -> None:
    found = recipe(args, **fields)
    assert first_step.unjudged(found) == ""
    assert f"first_step_{found.backend}" in features.names(found, on_cpu=False)
    assert "first_step" in features.callbacks(found, on_cpu=False)
    off = recipe(args, **fields, checkFirstStep=False)
    assert "first_step" not in features.callbacks(off, on_cpu=False)


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        ({}, {"task": "sft"}),
        ({"rlhf_type": "kto"}, {}),
        ({"reference_free": True}, {}),
        ({"adapters": ["/a"]}, {}),
        ({"adapters": ["/a"], "ref_adapters": ["/b"]}, {}),
        ({"ref_adapters": ["/a"]}, {}),
        ({**LORA, "init_weights": "pissa"}, {}),
        ({**LORA, "use_dora": True}, {}),
        ({"tuner_type": "adalora"}, {"backend": "transformers"}),
        ({"ld_alpha": 0.5}, {"backend": "transformers"}),
        ({"fp8_format": "hybrid"}, {}),
        ({"fp4_format": "e2m1"}, {}),
        ({"moe_expert_capacity_factor": 1.5}, {"reference": "precomputed"}),
        ({"moe_router_load_balancing_type": "sinkhorn"}, {}),
        ({"neftune_noise_alpha": 5}, {"backend": "transformers"}),
    ],
)
def test_not_judged(args: dict[str, Any], fields: dict[str, Any]) -> None:
    found = recipe(args, **fields)
    assert first_step.unjudged(found)
    assert "first_step" not in features.callbacks(found, on_cpu=False)
