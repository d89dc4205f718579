"""Merge nested mappings, such as Helm values and controller configurations."""

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``over`` laid over ``base``: mappings are merged, all other values are replaced.

    >>> merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": [4]})
    {'a': {'b': 3, 'c': 2}, 'd': [4]}
    """
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        result[key] = value
    return result
