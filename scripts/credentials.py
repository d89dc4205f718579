"""The forms of credentials and the names that announce one: ``credentials.yaml``.

The chart refuses them in plain values, the schema does not print them, reports leave them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from launchers.yaml_file import read_yaml

FILE = Path(__file__).resolve().parent.parent / "chart/charts/library/credentials.yaml"
SHORTEST = 6
"""Characters after a prefix from which redaction removes a token."""


@dataclass(frozen=True)
class Enclosed:
    """Patterns of a secret, of what announces it and of what ends it."""

    before: str
    secret: str
    after: str


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(FILE)
    return found


def form() -> str:
    """Return the pattern of text that holds a credential (RE2, Python, JavaScript).

    ``megatron-dpo.credential`` in validate/_secrets.tpl joins the same pattern.
    """
    tokens = "|".join(
        f"({each['prefix']})[{each['characters']}]{{{each['least']},}}"
        for each in _table()["prefixed"]
    )
    return "|".join(
        (
            f"(^|[^A-Za-z0-9_-])({tokens})",
            *(each.before + each.secret + each.after for each in enclosed()),
        )
    )


POINTER = "#/definitions/kubernetes/definitions/credential"
"""The same pattern in ``values.schema.json``."""


def unprinted(schema: Any) -> Any:
    """Return a schema whose patterns are not applied to a text that holds a credential.

    Helm prints a text that a pattern refuses. The templates refuse credentials, and print none.

    >>> unprinted({"pattern": "^a$", "errorMessage": "use a"})["else"]
    {'pattern': '^a$', 'errorMessage': 'use a'}
    """
    if isinstance(schema, list | tuple):
        return [unprinted(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {key: unprinted(value) for key, value in schema.items()}
    if "pattern" in made and "errorMessage" in made:
        form = {key: made.pop(key) for key in ("pattern", "errorMessage")}
        made |= {"if": {"$ref": POINTER}, "else": form}
    return made


def prefixed() -> tuple[str, ...]:
    """Return the patterns of tokens with a prefix, also of those that are cut."""
    return tuple(
        f"(?:{each['prefix']})[{each['characters']}]{{{each.get('shortest', SHORTEST)},}}"
        for each in _table()["prefixed"]
    )


def enclosed() -> tuple[Enclosed, ...]:
    """Return the patterns of secrets that other text announces."""
    return tuple(
        Enclosed(each["before"], each["secret"], each["after"]) for each in _table()["enclosed"]
    )


def words() -> str:
    """Return the pattern of what the name of a credential ends in, ignoring case."""
    return "|".join(_table()["names"]["words"])


def ordinary() -> str:
    """Return the pattern of names that end like one of a credential and are none."""
    found: str = _table()["names"]["ordinary"]
    return found
