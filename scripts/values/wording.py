"""The line of a mistake that the schema finds: ``path: cause; remedy [id]``.

The remedy is the schema's ``errorMessage``, or what its rules say. An ``errorMessage`` that ends in
an id is of a relation between values, and the whole line but the path.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from jsonschema import ValidationError

from launchers.config.sources import parse_source
from launchers.exits import LaunchError
from launchers.suggestion import nearest
from scripts.values import names
from scripts.values.paths import path, quoted
from scripts.values.variables import NO, YES

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]
"""Follows ``$ref``."""
SECRET = re.compile(r"(secret|token|passw|credential|auth|key)[^.]*$", re.IGNORECASE)
"""Paths whose values are not shown."""
_ID = re.compile(r" \[[a-z0-9-]+\]$")
_PLACE = re.compile(r"\{([A-Za-z.]*)\}")
_PAGE = r"^https?://(?:www\.)?(?:huggingface\.co|hf\.co)/(?:datasets/)?"
_ROWS = r"\.(arrow|csv|jsonl?|parquet|tsv|txt)$"
"""Ends of the names of files with rows."""
_TYPES = {
    "object": "a map", "array": "a list", "string": "a text", "boolean": "true or false",
    "integer": "a whole number", "number": "a number",
}  # fmt: skip


def said(schema: Schema) -> str:
    """Return the schema's own words; empty if it has none."""
    form = schema.get("else")
    inner = form.get("errorMessage", "") if isinstance(form, Mapping) else ""
    return str(schema.get("errorMessage", inner))


def is_relation(error: ValidationError) -> bool:
    """Return whether a value is right by itself, and the schema refuses it with others."""
    return isinstance(error.schema, Mapping) and bool(_ID.search(said(error.schema)))


def relation(error: ValidationError, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path and the line of a relation.

    Of its words {} is the value, {a.b} that of another key, {near} the source that a text means,
    {use} what sets a field that the chart decides.
    """
    where = path(error.absolute_path)
    value = error.message if error.validator == "name" else error.instance
    if error.validator == "missing":
        where = path([error.message], where)

    def text(found: re.Match[str]) -> str:
        if found[1] == "near":
            return near(str(value))
        if found[1] == "use":
            return names.of_owned(where, values)
        other: Any = values
        for key in found[1].split("."):
            other = other.get(key, {}) if found[1] else value
        return shown(found[1] or where, other)

    assert isinstance(error.schema, Mapping)
    return where, f"{where}: {_PLACE.sub(text, said(error.schema))}"


def near(text: str) -> str:
    """Return the source that a text probably means, as a remedy begins; empty if there is none.

    >>> near("org/name"), near("https://huggingface.co/datasets/o/n/tree/v1#5"), near("a.jsonl")
    ('the nearest is hf://org/name@main; ', 'the nearest is hf://o/n@v1#5; ', '')
    """
    rest = re.sub(r"#[1-9][0-9]*$", "", text)
    found = re.sub(_PAGE, "hf://", rest)
    found = re.sub(r"^https?://(?:www\.)?modelscope\.(?:cn|ai)/(models|datasets)/", "ms://", found)
    found = re.sub(r"^((?:hf|ms)://[^/@]+/[^/@]+)/tree/([^/@]+)/?$", r"\1@\2", found).rstrip("/")
    if found[:1] == "/" != found[1:2]:
        found = f"file://{found}"
    # the name of a file is not the name of a dataset on a hub
    elif re.search(r"^\w[\w.-]*/\w[\w.-]*(@\S+)?$", found) and not re.search(_ROWS, found):
        found = f"hf://{found}"
    if re.search(r"^(hf|ms)://[^/@]+/[^/@]+$", found):
        found += "@main" if found.startswith("hf:") else "@master"
    try:
        is_source = found != rest and parse_source(found, "recipe.model").hub != "code"
    except LaunchError:
        is_source = False
    return f"the nearest is {found}{text.removeprefix(rest)}; " if is_source else ""


def line(error: ValidationError, resolve: Resolve) -> tuple[str, str]:
    """Return the path and the line of a mistake."""
    where = path(error.absolute_path)
    value: Any = error.instance
    schema = error.schema
    assert isinstance(schema, Mapping)
    keyword = str(error.validator)
    if keyword in ("unknown", "missing"):
        where = path([error.message], where)
    if keyword == "unknown":
        level = path(error.absolute_path)
        use = names.elsewhere(level, error.message) or _near(error.message, schema)
        text = f"not a key of {level}; {use} [key-unknown]"
    elif keyword == "missing":
        needed = error.validator_value
        cause = f" with {needed}" if isinstance(needed, str) else ""
        text = f"missing, and required{cause}; set it [value-missing]"
    elif keyword == "name":
        text = _name(error.message, resolve(schema["propertyNames"]))
        where = path([error.message], where)
    elif keyword == "one":
        text = _one(value, schema)
    elif keyword == "type":
        text = _type(where, value, schema, resolve)
    elif keyword == "enum":
        text = _choice(where, value, schema)
    elif keyword == "const":
        use = remedy(where, value, schema, resolve)
        text = f"{shown(where, value)} is not possible here; {use} [value-choice]"
    elif keyword in ("minimum", "maximum", "exclusiveMinimum", "multipleOf"):
        use = said(schema) or f"use {_number(schema)}"
        text = f"{shown(where, value)} is out of range; {use} [value-range]"
    elif keyword in ("minItems", "maxItems"):
        text = _count(len(value), schema)
    elif keyword == "uniqueItems":
        text = "the same item is there twice; remove one [value-twice]"
    elif keyword == "not" and "required" in schema["not"]:
        where = path([schema["not"]["required"][0]], where)
        text = f"not possible here; {said(schema) or 'remove it'} [value-excluded]"
    else:
        text = _form(where, value, schema, resolve)
    return where, f"{where}: {text}"


def unknown_key(level: str, key: str, own: Mapping[str, list[str]], values: Schema) -> str:
    """Return the line of a key that no map of the chart has.

    ``values`` are merged: their recipe selects the flags that may be meant.
    """
    word = key if re.fullmatch(r"[A-Za-z0-9_./-]{1,60}", key) else quoted(key[:60])
    use = names.remedy(level, key, own, values)
    return f"{level}.{word}: not a key of this chart; {use} [key-unknown]".removeprefix(".")


def shown(where: str, value: object) -> str:
    """Return a value as a message shows it; not one that may be a secret, by its path."""
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if SECRET.search(where):
        return "the value"
    if isinstance(value, str):
        return quoted(value[:80]) + ("..." if len(value) > 80 else "")
    return json.dumps(value)


def remedy(where: str, value: object, schema: Schema, resolve: Resolve) -> str:
    """Return what to write: the schema's own words, or what its rules say."""
    types = _types(schema)
    if said(schema):
        return said(schema)
    if "enum" in schema:
        words = [_word(each) for each in schema["enum"] if each is not None]
        return f"use {'one of ' if len(words) > 1 else ''}{', '.join(words)}"
    if "const" in schema:
        return f"use {_word(schema['const'])}"
    if "integer" in types or ("number" in types and "string" not in types):
        return f"use {_number(schema)}"
    if "string" in types:
        most = schema.get("maxLength")
        return "use a text" + (f" of at most {most} characters" if most else "")
    if "boolean" in types:
        return "use true or false"
    if "array" in types:
        return _list(where, value, schema, resolve)
    keys = sorted(schema.get("properties", ()))
    if keys:
        return f"use a map with {'keys such as ' if len(keys) > 1 else ''}{', '.join(keys)[:120]}"
    return "use a map, such as {a: b}"


def _list(where: str, value: object, schema: Schema, resolve: Resolve) -> str:
    items = resolve(schema.get("items", {}))
    if items.get("properties") and not isinstance(value, str):
        keys = (", ".join(sorted(items["properties"])) + ",")[:120].rpartition(",")[0]
        return f"use a list of maps with keys such as {keys}"
    text = shown(where, value)
    is_text = isinstance(value, str) and "object" not in _types(schema) and text != "the value"
    return f"use a list, such as {f'[{text}]' if is_text else '[a, b]'}"


def _types(schema: Schema) -> list[str]:
    given = schema.get("type", [])
    return [each for each in ([given] if isinstance(given, str) else given) if each != "null"]


def _word(value: object) -> str:
    return '""' if value == "" else str(value).lower() if isinstance(value, bool) else str(value)


def _number(schema: Schema) -> str:
    whole = "whole " if "integer" in _types(schema) or "multipleOf" in schema else ""
    least, above, most = (schema.get(k) for k in ("minimum", "exclusiveMinimum", "maximum"))
    if above is not None:
        bounds = f" above {above}" + ("" if most is None else f" and up to {most}")
    elif least is not None:
        bounds = f" of {least} or more" if most is None else f" from {least} to {most}"
    else:
        bounds = "" if most is None else f" of at most {most}"
    return f"a {whole}number{bounds}"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else ""


def _type(where: str, value: object, schema: Schema, resolve: Resolve) -> str:
    types, kind = _types(schema), _kind(value)
    is_size = said(schema).startswith("use a quantity")
    if is_size and kind == "number" and isinstance(value, int) and 0 < value < 2**20:
        return f"{value} is a number of bytes; use {value}Gi or another unit [resource-unit]"
    # quotes alone do not make a size of true or -5
    is_quotable = not is_size or re.fullmatch(r"[1-9][0-9]{0,14}", json.dumps(value))
    if is_quotable and kind == "number" and "string" in types:
        return (
            f"a number ({json.dumps(value)} as YAML reads it), and a text is required; quote it "
            "as it was written (--set-string in a command) [number-unquoted]"
        )
    if is_quotable and kind == "boolean" and "string" in types and "number" not in types:
        return (
            f"{json.dumps(value)} is a boolean, as YAML reads it, and a text is required; "
            "quote it as it was written [boolean-unquoted]"
        )
    if isinstance(value, str):
        low = value.lower()
        if "boolean" in types and low in (*YES, *NO):
            true = "true" if low in YES else "false"
            cause = f"{shown(where, value)} is a text"
            return f"{cause}; remove the quotes and write {true} [value-quoted]"
        if {"integer", "number"} & set(types) and re.fullmatch("-?[0-9]{1,15}", value):
            return f"{shown(where, value)} is a text; remove the quotes [value-quoted]"
        if "number" in types and re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,15}", value):
            cause = f"{shown(where, value)} is a text, as --set makes it of a fraction"
            return f"{cause}; remove the quotes, or use --set-json '{where}={value}' [value-quoted]"
    wanted = " or ".join(_TYPES[each] for each in types)
    is_what = f" is a {kind}" if kind else ""
    use = remedy(where, value, schema, resolve)
    return f"{shown(where, value)}{is_what}, where {wanted} is required; {use} [value-type]"


def _choice(where: str, value: object, schema: Schema) -> str:
    words = [each for each in schema["enum"] if isinstance(each, str)]
    low = str(value).lower()
    same = [word for word in words if word.lower() in (low, low.removeprefix("cap_"))]
    near = None
    if not same and isinstance(value, str):
        near = nearest(names.snake(value), words)
    use = said(schema) or remedy(where, value, {"enum": schema["enum"]}, lambda node: node)
    if same or near:
        first = f"use {same[-1]}" if same else f"the nearest is {near}"
        use = f"{first} ({use.removeprefix('use ')})"
    return f"{shown(where, value)} is not one of its choices; {use} [value-choice]"


def _form(where: str, value: object, schema: Schema, resolve: Resolve) -> str:
    most = schema.get("maxLength")
    if value == "":
        return f"empty; {remedy(where, value, schema, resolve)} [value-form]"
    if most and isinstance(value, str) and len(value) > most:
        cause = f"{shown(where, value)} has {len(value)} characters, of at most {most}"
        return f"{cause}; shorten it [value-form]"
    use = remedy(where, value, schema, resolve)
    size = re.fullmatch(r"([0-9.]+) ?([MGTP])(i?)B?", str(value), re.IGNORECASE)
    meant = f"{size[1]}{size[2].upper()}{size[3].lower()}" if size else value
    if meant != value and use.startswith("use a quantity"):
        use = f"use {meant}"
    return f"{shown(where, value)} is not accepted; {use} [value-form]"


def _count(count: int, schema: Schema) -> str:
    most = schema.get("maxItems")
    bound = f"at least {schema.get('minItems')}" if most is None else f"at most {most}"
    use = said(schema) or f"use {bound}"
    return f"{f'{count} items' if count else 'an empty list'}; {use} [value-count]"


def _near(key: str, schema: Schema) -> str:
    known = sorted(schema.get("properties", ()))
    same = [each for each in known if each.lower() == key.lower()]
    near = same[-1] if same else nearest(names.snake(key), known)
    if near:
        return f"the nearest is {near}"
    return f"remove it, or use one of {', '.join(known)}" if len(known) <= 16 else "remove it"


def _name(key: str, schema: Schema) -> str:
    use = "use letters, digits and -"
    if said(schema) or "enum" in schema:
        use = remedy("", key, schema, lambda node: node)
    return f"{quoted(key[:80])} is not accepted as a name; {use} [value-name]"


def _one(value: Mapping[str, Any], schema: Schema) -> str:
    fields = [each["required"][0] for each in schema.get("oneOf", ()) if each.get("required")]
    if not fields:
        # a map with the keys that it must have and one more: a volume's name and its source
        fields = sorted(set(schema.get("properties", ())) - set(schema.get("required", ())))
    given = [field for field in fields if field in value]
    use = said(schema) or f"set exactly one of {', '.join(fields)}"
    listed = f" of {', '.join(fields)}" if said(schema) else ""
    cause = f"sets {' and '.join(given)}" if given else f"sets none{listed}"
    return f"{cause}; {use} [value-one]"
