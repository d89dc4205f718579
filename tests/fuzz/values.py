"""Values files drawn from values.schema.json: valid ones, and such with mistakes in them."""

from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Any

from hypothesis import strategies as st

from tests.chart.helm import Document, merged
from tests.chart.test_values import KEYS, SCHEMA, SUBCHARTS, nested
from tests.fuzz.layers import SOUND

Values = st.SearchStrategy[Any]

WORDS = (
    "",
    "x",
    "1",
    "yes",
    "null",
    "~",
    "a b",
    "/x",
    "../a",
    "-u",
    "# no",
    "a: b",
    "- a",
    "&a *a",
    "{{ fail }}",
    "{{ .Values }}",
    "%s",
    "'",
    '"',
    "a\nb",
    "a\tb",
    "é",
    "\u202e",
    "\x7f",
    "0x10",
    "1e400",
    "12_000",
    "012",
    "hf://a/b@c#9",
    "jobs",
    "ReadWriteOnce",
    "/a/",
    "file:///a",
    "a" * 300,
    "!!binary x",
    "|",
    ">-",
)
HUGE = (10**12, 2**63, -(2**63), 10**30, 1e308, 5e-324, -1, 0, 2.5, 999999, 1_000_000, True)
NESTED: tuple[Any, ...] = (
    [],
    [None],
    ["x"],
    [{}],
    [[[]]],
    {},
    {"a": None},
    {"x": {"y": [1]}},
    {"name": "x"},
    {"valueFrom": {}},
    {"": 1},
    {"é\n": 1},
    {"A_TOKEN": 1},
    [{"name": "shm"}],
    {"add": None},
    {"a" * 400: "x"},
    {"cpu": 3, "memory": None},
    {"rdma/x": 1.5},
    {"lr": {"a": []}},
    {"lr": [1, 5e-7, True]},
    {"tensor_model_parallel_size": 999999},
    {"--": ""},
    {"--lr": 1},
    {"global_batch_size": [1]},
    {"micro_batch_size": None},
    {"capabilities": None},
    {"capabilities": {"add": ["X"]}},
    {"runAsUser": 0},
    {"privileged": True, "runAsUser": None},
    ["ReadWriteOncePod"],
)
ODD: Values = st.one_of(*(st.sampled_from(some) for some in (WORDS, HUGE, NESTED)), st.none())
TEXT: Values = st.one_of(st.sampled_from(WORDS), st.text(max_size=20))
NAMES = st.one_of(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), TEXT)
FLAGS = st.sampled_from(
    ("lr", "packing", "beta", "template", "report_to", "megatron_extra_kwargs", "max_length")
    + ("tensor_model_parallel_size", "expert_model_parallel_size", "global_batch_size", "save")
)


def valid(schema: Document, *, name: str = "") -> Values:
    if "$ref" in schema:
        _, *path = schema["$ref"].split("/")
        return valid(reduce(getitem, path, SCHEMA), name=name)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("type", "object")
    drawn = (_KINDS[kind](schema, name) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    return st.one_of(*drawn)


def _integer(schema: Document, _: str) -> Values:
    least, most = schema.get("minimum", -(2**31)), schema.get("maximum", 2**31 - 1)
    small = st.integers(least, min(most, least + 16))
    return st.one_of(small, small, st.sampled_from((least, most)))


def _number(schema: Document, _: str) -> Values:
    least, most = schema.get("minimum", -1e12), schema.get("maximum", 1e12)
    return st.one_of(st.integers(0, 64), st.floats(least, most, allow_nan=False), st.just(5e-7))


def _string(schema: Document, _: str) -> Values:
    pattern = schema.get("else", {}).get("pattern")
    if pattern is None:
        return TEXT
    longest = schema.get("maxLength", 300)
    return st.from_regex(pattern, fullmatch=True).filter(lambda s: len(s) <= longest)


def _array(schema: Document, _: str) -> Values:
    least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
    unique = repr if schema.get("uniqueItems") else None
    return st.lists(valid(schema.get("items", {})), min_size=least, max_size=most, unique_by=unique)


def _object(schema: Document, name: str) -> Values:
    needed = {k: valid(v) for k, v in schema.get("properties", {}).items()}
    must = set(schema.get("required", ()))
    fixed = st.fixed_dictionaries(
        {k: v for k, v in needed.items() if k in must},
        optional={k: v for k, v in needed.items() if k not in must},
    )
    more = schema.get("additionalProperties", {})
    if more is False:
        return fixed
    inner = valid(more) if isinstance(more, dict) and more else TEXT
    keys = FLAGS if name == "recipe.args" else NAMES
    free = st.dictionaries(keys, inner, max_size=3)
    return st.tuples(free, fixed).map(lambda both: {**both[0], **both[1]})


_KINDS: dict[str, Callable[[Document, str], Values]] = {
    "integer": _integer,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
    "boolean": lambda _, __: st.booleans(),
    "null": lambda _, __: st.none(),
}


# Helm reads values of subcharts before the schema, and refuses a null in its words.
OWN = {path: schema for path, schema in KEYS.items() if path.partition(".")[0] not in SUBCHARTS}
PATHS = st.sampled_from(sorted(OWN))
LEVELS = st.sampled_from(sorted(["", *(p for p in OWN if "properties" in OWN[p])]))
ONE_KEY = PATHS.flatmap(lambda p: valid(OWN[p], name=p).map(lambda v: nested(p, v)))
UNFIT: tuple[Document, ...] = (
    {"recipe": {"export": "best"}},
    {"recipe": {"args": {"global_batch_size": 3}}},
)
"""Settings that the schema accepts and that the templates refuse in most runs."""
MISTAKE = st.one_of(
    st.sampled_from(UNFIT),
    st.tuples(PATHS, ODD).map(lambda pair: nested(*pair)),
    PATHS.map(lambda path: nested(path, None)),
    st.tuples(LEVELS, NAMES, ODD).map(lambda drawn: nested(drawn[0], {drawn[1]: drawn[2]})),
)


@st.composite
def files(draw: st.DrawFn) -> Document:
    """Draw the values of one run: sound settings, a few keys of any kind, a few mistakes."""
    layers = draw(st.lists(st.sampled_from(SOUND), max_size=4))
    layers += draw(st.lists(ONE_KEY, max_size=draw(st.sampled_from((0, 1, 1, 2, 4)))))
    layers += draw(st.lists(MISTAKE, max_size=draw(st.sampled_from((0, 0, 1, 3)))))
    return merged(*layers)
