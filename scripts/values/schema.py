"""``values.schema.json``, applied to values: each mistake with its path and its line."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from jsonschema import Draft7Validator, ValidationError
from jsonschema.validators import extend

from scripts.values import wording
from scripts.values.flags import CHART
from scripts.values.paths import path

Schema = Mapping[str, Any]
Found = Iterator[ValidationError]
_RANK = ("type", "enum", "const", "maxLength", "minLength", "pattern")
"""Keywords of one text whose mistake precedes others: a path has one line."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One value that the schema refuses."""

    path: str
    line: str
    """``path: cause; remedy [id]``."""
    is_unknown_key: bool = False
    """Of a map of the chart itself, not of a pod part."""
    is_relation: bool = False
    """The value is right by itself."""


@cache
def schema() -> Schema:
    """Return the chart's schema."""
    found: Schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return found


def maps(below: Schema, path: str = "") -> dict[str, list[str]]:
    """Return the path of each map of the chart with its keys; those of pod parts are left out.

    >>> maps({"properties": {"a": {"properties": {"b": {}}}, "c": {"$ref": "#/d"}}})
    {'': ['a', 'c'], 'a': ['b']}
    """
    properties = below.get("properties")
    if properties is None:
        return {}
    found = {path: list(properties)}
    for name, each in properties.items():
        found |= maps(each, f"{path}.{name}".lstrip("."))
    return found


def mistakes(values: Mapping[str, Any]) -> list[Mistake]:
    """Return the mistakes of merged values: one for each path, and the relations, once each."""
    errors = sorted(_judge().iter_errors(values), key=_order)
    found: dict[str, Mistake] = {}
    for error in errors:
        if not wording.is_relation(error):
            mistake = _mistake(error, values)
            found.setdefault(mistake.path, mistake)
    lines = dict(wording.relation(e, values)[::-1] for e in errors if wording.is_relation(e))
    others = [Mistake(path=at, line=line, is_relation=True) for line, at in lines.items()]
    return [*found.values(), *(each for each in others if each.path not in found)]


def is_valid(values: object, key: str) -> bool:
    """Return whether the schema accepts the value of a key of the first level by itself."""
    below = schema()["properties"].get(key, {})
    return _is_right(key, json.dumps(values)) or all(
        map(wording.is_relation, _judge().evolve(schema=below).iter_errors(values))
    )


def _mistake(error: ValidationError, values: Mapping[str, Any]) -> Mistake:
    level = path(error.absolute_path)
    own = maps(schema())
    if error.validator == "unknown" and level in own:
        key = error.message
        line = wording.unknown_key(level, key, own, values)
        return Mistake(path=path([key], level), line=line, is_unknown_key=True)
    where, line = wording.line(error, _resolved)
    return Mistake(path=where, line=line)


def _resolved(node: Schema) -> Schema:
    while "$ref" in node:
        target: Any = schema()
        for name in node["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        node = target
    return node


def _order(error: ValidationError) -> tuple[Any, ...]:
    keyword = str(error.validator)
    rank = _RANK.index(keyword) if keyword in _RANK else len(_RANK)
    parts = [*error.absolute_path, *([error.message] if keyword in ("unknown", "missing") else [])]
    return ([(isinstance(p, str), p if isinstance(p, str) else f"{p:06}") for p in parts], rank)


def go_pattern(pattern: str) -> str:
    r"""Return a pattern of Go for Python, whose $ also matches before a last line break.

    >>> go_pattern("^a[$]$"), go_pattern(r"\\$|b$")
    ('^a[$]\\Z', '\\\\\\Z|b\\Z')
    """
    token = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", re.DOTALL)
    return token.sub(lambda found: r"\Z" if found[0] == "$" else found[0], pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(go_pattern(pattern), re.ASCII)


def _properties(judge: Any, properties: Schema, value: object, node: Schema) -> Found:
    if not isinstance(value, dict):
        return
    for key, below in properties.items():
        if key in value and not (node is schema() and _is_right(key, json.dumps(value[key]))):
            yield from judge.descend(value[key], below, path=key, schema_path=key)


@lru_cache(maxsize=4096)
def _is_right(key: str, text: str) -> bool:
    """Return whether a key of the first level has no mistake: most keep one value in a process."""
    below = schema()["properties"].get(key, {})
    return _judge().evolve(schema=below).is_valid(json.loads(text))


def _pattern(_: Any, pattern: str, value: object, __: Schema) -> Found:
    if isinstance(value, str) and not _compiled(pattern).search(value):
        yield ValidationError("form")


def _additional(judge: Any, more: object, value: object, node: Schema) -> Found:
    if not isinstance(value, dict):
        return
    for key in value.keys() - node.get("properties", {}).keys():
        if more is False:
            yield ValidationError(key, validator="unknown")
        elif isinstance(more, Mapping):
            yield from judge.descend(value[key], more, path=key)


def _names(judge: Any, names: Schema, value: object, _: Schema) -> Found:
    if isinstance(value, dict):
        for key in value:
            if not judge.evolve(schema=names).is_valid(key):
                yield ValidationError(key, validator="name")


def _required(_: Any, needed: Iterable[str], value: object, __: Schema) -> Found:
    if isinstance(value, dict):
        for key in needed:
            if key not in value:
                yield ValidationError(key, validator="missing")


def _count(_: Any, __: int, value: object, node: Schema) -> Found:
    if not isinstance(value, dict) or any(key not in value for key in node.get("required", ())):
        return
    least, most = node.get("minProperties", 0), node.get("maxProperties", len(value))
    if not least <= len(value) <= most:
        yield ValidationError("", validator="one")


def _dependencies(judge: Any, needed: Mapping[str, Any], value: object, _: Schema) -> Found:
    if not isinstance(value, dict):
        return
    for key, more in needed.items():
        if key not in value:
            continue
        if isinstance(more, Mapping):
            yield from judge.descend(value, more, schema_path=key)
        else:
            for each in more:
                if each not in value:
                    yield ValidationError(each, validator="missing", validator_value=key)


def _any_of(judge: Any, several: list[Schema], value: object, node: Schema) -> Found:
    if any(judge.evolve(schema=each).is_valid(value) for each in several):
        return
    if wording.said(node):
        yield ValidationError("form", validator="form")
    else:
        yield from judge.descend(value, several[-1], schema_path=len(several) - 1)


def _one_of(judge: Any, several: list[Schema], value: object, _: Schema) -> Found:
    if (
        isinstance(value, dict)
        and sum(judge.evolve(schema=each).is_valid(value) for each in several) != 1
    ):
        yield ValidationError("", validator="one")


def _enum(_: Any, words: list[object], value: object, __: Schema) -> Found:
    if json.dumps(value, sort_keys=True) not in [json.dumps(w, sort_keys=True) for w in words]:
        yield ValidationError("choice")


@cache
def _judge() -> Draft7Validator:
    keywords = {
        "properties": _properties, "pattern": _pattern, "enum": _enum,
        "additionalProperties": _additional, "propertyNames": _names, "required": _required,
        "minProperties": _count, "maxProperties": _count, "dependencies": _dependencies,
        "anyOf": _any_of, "oneOf": _one_of,
    }  # fmt: skip
    judge: Draft7Validator = extend(Draft7Validator, keywords)(schema())  # type: ignore[no-untyped-call]
    return judge
