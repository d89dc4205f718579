"""Overrides of megatron-core's configuration in a recipe: a map, which may be written as JSON.

ms-swift repairs text that is not JSON and reads a file that it names
(``swift/utils/utils.py:json_parse_to_dict``): rules would see none of those keys, so that such text
is refused.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from launchers.config.flag_value import Value
from launchers.refusal import Refusal

PARALLEL = (
    "context_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size",
    "pipeline_model_parallel_size", "sequence_parallel", "tensor_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
)  # fmt: skip
"""Fields that megatron-core's process groups have to agree with: they are flags of ms-swift, from
which it makes the groups (``swift/megatron/utils/megatron_lm_utils.py: _initialize_mpu``)."""
_SWITCHES = ("true", "false", "yes", "no", "on", "off")


def read_overrides(value: Value) -> Mapping[str, Any] | None:
    """Return the map; None where there is none.

    >>> [read_overrides(value) for value in ('{"a": 1}', {"a": 1}, "[1]", "{a: 1}")]
    [{'a': 1}, {'a': 1}, None, None]
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def wrong(flag: str, value: Value) -> list[Refusal]:
    """Return a refusal of a value that is not a map, or of wrong keys and switches in it.

    megatron-core's configuration converts nothing (``transformer_config.py``): a text is on.

    >>> wrong("f", {"a": "false"})[0].says
    '"false" is a string, which megatron-core treats as true; use true or false without quotes'
    """
    if value in ("", [], [""]):
        return []
    found = read_overrides(value)
    if found is None:
        given = " ".join(value) if isinstance(value, list) else value
        says = "is not a map; use key: value lines below it or a JSON object"
        return [Refusal(id="overrides-map", path=f"recipe.args.{flag}", says=f'"{given}" {says}')]
    path = f"recipe.args.{flag}"
    return [
        Refusal(id=id, path=f"{path}.{key}", says=says)
        for key in sorted(found, key=str)
        for id, says in _wrong_key(key, found[key])
    ]


def _wrong_key(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if key in PARALLEL:
        yield (
            "overrides-parallel",
            "would differ from the process groups, which are made from the flag; set "
            f"recipe.args.{key}",
        )
    if isinstance(value, str) and value.lower() in _SWITCHES:
        yield (
            "overrides-text",
            f'"{value}" is a string, which megatron-core treats as true; '
            "use true or false without quotes",
        )
