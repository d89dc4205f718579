"""The launcher reads the settings of the preflight as the chart renders them."""

import json

import pytest

from launchers.config.gpu_models import GPU_MODELS
from launchers.config.preflight import CHECKS, Preflight, from_env
from tests.chart.helm import CHART, Document, Refused, merged, render, settings, template

SCHEMA: Document = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
KEYS = SCHEMA["properties"]


def parsed(values: Document) -> Preflight:
    return from_env(settings(render(values)))


def test_every_gpu_model_and_every_check_may_be_named() -> None:
    assert KEYS["gpuModel"]["enum"] == ["", *GPU_MODELS, None]
    assert KEYS["preflight"]["properties"]["skipChecks"]["items"]["enum"] == list(CHECKS)


def test_the_defaults_check_everything() -> None:
    found = parsed({})
    assert all(found.wants(check) for check in CHECKS)
    assert (found.gpu, found.node_floor, found.strict, found.deadline) == (None, None, False, 60)


def test_what_the_values_say_reaches_the_launcher() -> None:
    preflight = {"skipChecks": ["pairs", "disk"], "strict": True, "nodeFloorGBs": 187.5}
    found = parsed({"gpuModel": "h200", "preflight": {**preflight, "deadlineSeconds": 90}})
    assert found.skips == {"pairs", "disk"}
    assert found.gpu is GPU_MODELS["h200"]
    assert (found.node_floor, found.strict, found.deadline) == (187.5, True, 90)


def test_a_skipped_preflight_wants_nothing() -> None:
    assert not any(parsed({"preflight": {"skip": True}}).wants(check) for check in CHECKS)


@pytest.mark.parametrize(
    "values",
    [
        {"gpuModel": "a100"},
        {"preflight": {"skipChecks": ["nccl"]}},
        {"preflight": {"nodeFloorGBs": 0}},
        {"preflight": {"deadlineSeconds": 5}},
    ],
)
def test_what_cannot_be_is_refused_by_the_schema(values: Document) -> None:
    with pytest.raises(Refused):
        template(merged(values))
