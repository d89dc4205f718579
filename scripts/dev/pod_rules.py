"""Rules of pod parts, ``pod_rules.yaml``: patterns filled in, references as the schema has them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launchers.yaml_file import read_yaml
from scripts import credentials

Schema = Mapping[str, Any]
POINTER = "#/definitions/kubernetes/definitions"
_TABLE = read_yaml(Path(__file__).with_suffix(".yaml"))


def ref(name: str) -> Schema:
    """Return a reference to a generated definition."""
    return {"$ref": f"{POINTER}/{name}"}


def _pattern(text: str) -> str:
    """Return a pattern with those that it names."""
    return re.sub(r"<([A-Z0-9]+)>", lambda found: _pattern(_TABLE["patterns"][found[1]]), text)


def _resolved(node: Any) -> Any:
    if isinstance(node, list):
        return [_resolved(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return ref(node["$ref"])
    is_text = isinstance(node.get("pattern"), str)
    filled = {**node, "pattern": _pattern(node["pattern"])} if is_text else node
    return {name: _resolved(each) for name, each in filled.items()}


SHARED: Mapping[str, Schema] = {
    **_resolved(_TABLE["shared"]),
    "credential": {"pattern": credentials.form()},
}
KEPT: Mapping[str, list[str]] = _TABLE["kept"]
OWNED: list[str] = _TABLE["owned"]
DROPPED: Mapping[str, list[str]] = _TABLE["dropped"]
OPTIONAL: list[str] = _TABLE["optional"]
NULLABLE: list[str] = _TABLE["nullable"]
FIELDS: Mapping[str, Mapping[str, Schema]] = _resolved(_TABLE["fields"])
TYPES: Mapping[str, Schema] = _resolved(_TABLE["types"])
