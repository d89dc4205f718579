"""What a recipe sets straight in megatron-core's configuration: a map, which may be spelt as JSON.

ms-swift repairs text that is no JSON and reads a file that it names
(``swift/utils/utils.py:json_parse_to_dict``): rules would see none of those keys, so that such text
is refused. ``chart/templates/recipe/_overrides.tpl`` says the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from launchers.config.recipe import Value
from launchers.refusal import Refusal

_SWITCHES = ("true", "false", "yes", "no", "on", "off")


def read(value: Value) -> Mapping[str, Any] | None:
    """Return the map; None where there is none.

    >>> read('{"a": 1}'), read({"a": 1}), read("[1]"), read("{a: 1}")
    ({'a': 1}, {'a': 1}, None, None)
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def wrong(flag: str, value: Value) -> list[Refusal]:
    """Return a message for a value that is no map, or for each switch in it that is a text.

    megatron-core's configuration converts nothing (``transformer_config.py``): a text is on.

    >>> wrong("f", {"a": "false"})[0].says
    '"false" is a text, which megatron-core takes for true; write true or false without quotes'
    """
    if value in ("", [], [""]):
        return []
    found = read(value)
    if found is None:
        given = " ".join(value) if isinstance(value, list) else value
        told = "is no map; write key: value lines below it, or a JSON object"
        return [Refusal(id="overrides-map", path=f"recipe.args.{flag}", says=f'"{given}" {told}')]
    return [
        Refusal(
            id="overrides-text",
            path=f"recipe.args.{flag}.{key}",
            says=f'"{found[key]}" is a text, which megatron-core takes for true; '
            "write true or false without quotes",
        )
        for key in sorted(found, key=str)
        if isinstance(found[key], str) and found[key].lower() in _SWITCHES
    ]
