"""No values make a template panic: they render, or are refused in our words."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from tests.chart.helm import Document, Refused, merged, objects, template
from tests.chart.test_crd import FULL
from tests.chart.test_values import HELMS, KEYS, SCHEMA

PATHS = sorted(set(KEYS) - HELMS)
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    2.5,
    1e9,
    10**12,
    "",
    "x",
    "1",
    "a b",
    "/x",
    "a\nb",
    "é\x7f",
    "{{ fail }}",
    "- a: b",
    "ReadWriteOnce",
    "jobs",
    "hf://a/b@c#d",
    [],
    [None],
    ["x"],
    [{}],
    {},
    {"a": None},
    {"name": "x"},
    {"x": {"y": [1]}},
    {"valueFrom": {}},
    {"add": None},
    {"tensor_model_parallel_size": 999999, "context_parallel_size": 999999},
    {"lr": {"a": []}},
    {"cpu": 3, "memory": None},
    {"capabilities": {"add": ["X"]}},
    [{"name": "shm"}],
    {"runAsUser": 0},
    {"privileged": True, "runAsUser": None},
    {"rdma/x": 1.5, "memory": "1m"},
    {"A_TOKEN": 1, "1-": None},
    ["ReadWriteOncePod"],
    "../a",
    "/a/",
    "-u",
    {"--": ""},
    {"global_batch_size": [1]},
    {"micro_batch_size": None},
    {"é\n": 1},
    {"capabilities": None},
]
SIGNS_OF_A_PANIC = (
    "error calling",
    "nil pointer",
    "wrong type",
    "YAML parse error",
    "can't evaluate",
    "invalid value",
    "error converting YAML",
    "panic",
)


def admitted(path: str, value: Any) -> bool:
    """Tell whether the schema lets the value through to the templates."""
    return bool(Draft7Validator(SCHEMA).evolve(schema=KEYS[path]).is_valid(value))


ALL = [(path, value) for path in PATHS for value in ODD]
ADMITTED = [(path, value) for path, value in ALL if admitted(path, value)]


def nest(pair: tuple[str, Any]) -> Document:
    path, value = pair
    for name in reversed(path.split(".")):
        value = {name: value}
    result: Document = value
    return result


def mutation() -> st.SearchStrategy[Document]:
    """Draw mostly values that reach the templates; the schema refuses the others."""
    usual = st.sampled_from(ADMITTED)
    return st.one_of(usual, usual, usual, usual, st.sampled_from(ALL)).map(nest)


@settings(
    max_examples=90,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(full=st.booleans(), layers=st.lists(mutation(), min_size=1, max_size=4))
def test_odd_values_render_or_are_refused_in_our_words(full: bool, layers: list[Document]) -> None:
    try:
        rendered = template(merged(*([FULL] if full else []), *layers))
    except Refused as refused:
        message = str(refused)
        assert not [sign for sign in SIGNS_OF_A_PANIC if sign in message], message
        assert "the values cannot work" in message or "specifications of the schema" in message
    else:
        assert {"ConfigMap", "JobSet"} <= {document["kind"] for document in objects(rendered)}
