"""The values that training flags take, as the part ``flags`` of ``chart/values.schema.json``.

A schema can say what one flag takes: true or false, a number, a whole number within bounds, or one
of some words. Relations between flags stay in the chart's table of rules; so do bounds of numbers
that are not whole, since ``--set`` makes text of 0.1 and 5e-6, and a schema cannot compare text.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping

from launchers.flags.flag_types import NUMBER, WHOLE, FlagType
from launchers.rules.engine import Range
from launchers.rules.table import SWIFT
from scripts.credentials import unprinted

PLACE = re.compile(r'^    "flags": \{\n.*?^    \},?\n', re.MULTILINE | re.DOTALL)
"""The generated part: an entry of the schema's ``definitions``, with its lines."""
DIGITS = 15
"""Most digits of a whole number (``launchers``: ``is_whole``)."""
_MOST = 10**DIGITS - 1
_POINTER = "#/definitions/flags/definitions"
_SWITCH = "true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|[TtFfYyNn01]"
# `multipleOf: 1` and not the type integer, which an editor reports of 0.5 as "integer or string"
_TYPES: dict[str, dict[str, object]] = {
    "switch": {
        "type": ["boolean", "number", "string", "null"],
        "multipleOf": 1,
        "minimum": 0,
        "maximum": 1,
        "pattern": f"^({_SWITCH})$",
        "errorMessage": "use true or false",
    },
    "whole": {
        "type": ["number", "string", "null"],
        "multipleOf": 1,
        "minimum": -_MOST,
        "maximum": _MOST,
        "pattern": f"^{WHOLE.pattern}$",
        "errorMessage": "use a whole number",
    },
    "number": {
        "type": ["number", "string", "null"],
        "pattern": f"^{NUMBER.pattern}$",
        "errorMessage": "use a number, such as 0.1 or 1e-6",
    },
    # its bounds are a rule of the chart's table
    "scalar": {
        "type": ["number", "string", "null"],
        "errorMessage": "use one number, such as 0.1 or 1e-6",
    },
}
_DEFAULTS = ("megatron", True, SWIFT)
"""Of ``recipe.backend``, ``checkFlags`` and ``swiftVersion``."""
_OWN: dict[str, dict[str, object]] = {
    "columns": {  # ms-swift parses a text as JSON, or reads it as the path of a JSON file
        "type": ["object", "string", "null"],
        "pattern": r"^\s*\{|\.json$",
        "errorMessage": "use a map, e.g. {chosen: messages, rejected: rejected_messages}, or JSON",
    }
}
"""Flags that only ms-swift's own parser types."""
Schema = Mapping[str, object]
Taken = tuple[str, FlagType | None]
"""One flag and what it takes."""
Types = Mapping[str, Mapping[str, Mapping[str, FlagType | None]]]
"""Backend to release of ms-swift to flag to what it takes; None if anything, as far as a schema can
say: such flags are named for the completion of editors."""


def spliced(
    schema: str,
    types: Types,
    ranges: Mapping[str, Iterable[Range]],
    numbers: Collection[str],
    descriptions: Mapping[str, str],
) -> str:
    """Return the schema's text with its generated part replaced.

    Args:
        schema: text of ``values.schema.json``.
        types: backend to release of ms-swift to flag to what it takes; judged unless
            ``recipe.checkFlags`` is false.
        ranges: backend to the bounds of whole numbers, the same in each release; always judged.
        numbers: flags that a rule of the chart's table bounds: one value, no list.
        descriptions: flag to the sentence that editors show.

    Raises:
        ValueError: the schema has no such part.
    """
    if len(PLACE.findall(schema)) != 1:
        raise ValueError("values.schema.json has no definitions.flags to replace")
    part = _part(types, ranges, numbers, descriptions)
    return PLACE.sub(lambda found: part + (",\n" if found[0].endswith(",\n") else "\n"), schema)


def bounded(rule: Range) -> dict[str, object]:
    """Return the schema of a whole number within bounds, which may be written as text.

    Raises:
        ValueError: bounds that a pattern cannot express.

    >>> size = Range(id="f", source="", flag="f", noun="size", low="1", high="999999", whole=True)
    >>> bounded(size)["pattern"]
    '^[1-9][0-9]{0,5}$'
    >>> bounded(Range(id="f", source="", flag="f", noun="n", low="2", whole=True))["pattern"]
    '^([2-9]|[1-9][0-9]{1,14})$'
    """
    digits = len(rule.high) if rule.high else DIGITS
    high = rule.high or "9" * DIGITS
    if not rule.whole or rule.when or rule.below or rule.low not in list("123456789"):
        raise ValueError(f"{rule.flag}: no pattern for this rule")
    if high != "9" * digits:
        raise ValueError(f"{rule.flag}: no pattern for numbers up to {high}")
    more = f"[1-9][0-9]{{1,{digits - 1}}}"
    few = f"[1-9][0-9]{{0,{digits - 1}}}"
    pattern = few if rule.low == "1" else f"([{rule.low}-9]|{more})"
    bounds = f"from {rule.low} to {high}" if rule.high else f"of {rule.low} or more"
    return {
        "type": ["number", "string", "null"],
        "multipleOf": 1,
        "minimum": int(rule.low),
        "maximum": int(high),
        "pattern": f"^{pattern}$",
        "errorMessage": f"use a whole number {bounds}",
    }


def taken(flag_type: FlagType | None) -> Schema:
    """Return the schema of a type; words that read as numbers may be written as numbers.

    >>> taken(FlagType(type="choice", choices=("adam", "sgd")))
    {'enum': ['adam', 'sgd', None]}
    >>> taken(FlagType(type="choice", choices=("1", "float8")))
    {'anyOf': [{'enum': ['1', 'float8', None]}, {'enum': [1]}]}
    """
    if flag_type is None:
        return {}
    if flag_type.type != "choice":
        return {"$ref": f"{_POINTER}/{flag_type.type}"}
    words = {"enum": [*flag_type.choices, None]}
    numbers = [int(word) for word in flag_type.choices if re.fullmatch("0|[1-9][0-9]*", word)]
    # apart, since Helm 3 takes "1" and 1 in one enum for the same
    return {"anyOf": [words, {"enum": numbers}]} if numbers else words


def _part(
    types: Types,
    ranges: Mapping[str, Iterable[Range]],
    numbers: Collection[str],
    descriptions: Mapping[str, str],
) -> str:
    """Return the part, without the end of its line: conditions on keys of the recipe, and flags."""
    groups, conditions = _groups(types, ranges)
    versions = ", ".join(dict.fromkeys(v for releases in types.values() for v in releases))
    comment = f"Generated by `make flags` from ms-swift {versions}; do not edit."
    rows = [f'"{name}": {json.dumps(unprinted(schema))}' for name, schema in _TYPES.items()]
    scalars = dict.fromkeys(numbers, {"$ref": f"{_POINTER}/scalar"})
    for group, schemas in groups.items():
        lines = []
        for name, schema in sorted(schemas.items()):
            own = unprinted(schema or scalars.get(name) or _OWN.get(name, {}))
            lines.append(f'"{name}": {json.dumps(_described(own, descriptions.get(name)))}')
        rows.append(f'"{group}": {{"properties": {{\n{_block(lines, 10)}\n        }}}}')
    return "\n".join(
        (
            '    "flags": {',
            f'      "$comment": "{comment}",',
            f'      "allOf": [\n{_block(map(json.dumps, conditions), 8)}\n      ],',
            f'      "definitions": {{\n{_block(rows, 8)}\n      }}',
            "    }",
        )
    )


def _groups(
    types: Types, ranges: Mapping[str, Iterable[Range]]
) -> tuple[dict[str, dict[str, Schema]], list[Schema]]:
    """Return groups of flags, and the conditions that apply them.

    What all releases of both backends share is one group, what those of a backend share another,
    so that each release adds only its own flags.
    """
    shared = {name: _shared(map(_items, releases.values())) for name, releases in types.items()}
    common = _shared(shared.values())
    groups: dict[str, dict[str, Schema]] = {"pinned": _group(common)}
    conditions = [_condition("pinned", {"checkFlags": True})]
    for backend, releases in types.items():
        groups[f"{backend}Sizes"] = {rule.flag: bounded(rule) for rule in ranges[backend]}
        groups[f"{backend}Pinned"] = _group(shared[backend] - common)
        checked: dict[str, str | bool] = {"backend": backend, "checkFlags": True}
        conditions += [
            _condition(f"{backend}Sizes", {"backend": backend}),
            _condition(f"{backend}Pinned", checked),
        ]
        for version, flags in releases.items():
            name = f"{backend}-{version}"
            groups[name] = _group(_items(flags) - shared[backend])
            conditions.append(_condition(name, {**checked, "swiftVersion": version}))
    return groups, conditions


def _items(flags: Mapping[str, FlagType | None]) -> set[Taken]:
    return set(flags.items())


def _shared(several: Iterable[set[Taken]]) -> set[Taken]:
    return set.intersection(*several)


def _group(flags: Iterable[Taken]) -> dict[str, Schema]:
    return {name: taken(flag_type) for name, flag_type in flags}


def _described(schema: Schema, description: str | None) -> Schema:
    """Return a schema with its description, which editors read next to ``$ref``."""
    return {**schema, "description": description} if description else schema


def _condition(group: str, when: Mapping[str, str | bool]) -> Schema:
    """Return the schema that applies a group of flags to recipes whose keys have these values.

    A key that is not there, as Helm leaves out one that is null, has its default.
    """
    chosen: dict[str, object] = {"properties": {k: {"const": v} for k, v in when.items()}}
    needed = [key for key, value in when.items() if value not in _DEFAULTS]
    then = {"properties": {"args": {"$ref": f"{_POINTER}/{group}"}}}
    return {"if": {**chosen, **({"required": needed} if needed else {})}, "then": then}


def _block(rows: Iterable[str], indent: int) -> str:
    return ",\n".join(f"{' ' * indent}{row}" for row in rows)
