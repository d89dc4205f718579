"""Walking the OpenAPI v3 schema that the API server publishes of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scripts.doctor.answer import Object


def of_kind(document: Object, kind: str) -> Object | None:
    """The schema of a kind; None if the document has none."""
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for known in schema.get("x-kubernetes-group-version-kind") or []:
            if known.get("kind") == kind:
                found: Object = schema
                return found
    return None


def knows(document: Object, schema: Object, path: str) -> bool:
    """Whether a schema has a field, as in `spec.replicatedJobs[].dependsOn`.

    >>> knows({}, {"properties": {"a": {"items": {"properties": {"b": {}}}}}}, "a[].b")
    True
    """
    for word in path.split("."):
        name = word.removesuffix("[]")
        schema = _resolved(document, schema)
        if _is_open(schema):
            return True
        if name not in (schema.get("properties") or {}):
            return False
        schema = schema["properties"][name]
        if word.endswith("[]"):
            schema = _resolved(document, schema).get("items") or {}
    return True


def dropped(document: Object, schema: Object, value: Any) -> list[str]:
    """Fields of a value that the API server would not keep, as paths.

    >>> dropped({}, {"properties": {"a": {"type": "string"}}}, {"a": "x", "b": 1})
    ['b']
    """
    return list(dict.fromkeys(_dropped(document, schema, value, "")))


def _dropped(document: Object, schema: Object, value: Any, path: str) -> Iterator[str]:
    schema = _resolved(document, schema)
    if isinstance(value, list):
        for item in value:
            yield from _dropped(document, schema.get("items") or {}, item, f"{path}[]")
    if not isinstance(value, dict) or _is_open(schema):
        return
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name, item in value.items():
        place = f"{path}.{name}".lstrip(".")
        if name in properties:
            yield from _dropped(document, properties[name], item, place)
        elif isinstance(others, dict):
            yield from _dropped(document, others, item, place)
        elif not others:
            yield place


def _resolved(document: Object, schema: Object) -> Object:
    """The schema itself, behind references."""
    reference = schema.get("$ref")
    parts = schema.get("allOf") or []
    if reference is None and len(parts) == 1:
        return _resolved(document, parts[0])
    if reference is None:
        return schema
    name = str(reference).rpartition("/")[2]
    return _resolved(document, document["components"]["schemas"][name])


def _is_open(schema: Object) -> bool:
    """Whether any field is kept."""
    typed = schema.get("properties") or schema.get("additionalProperties")
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) or not typed
