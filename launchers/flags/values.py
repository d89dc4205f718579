"""The text of a flag's value: yes and no, whole numbers, numbers."""

from __future__ import annotations

import json
import re

from launchers.config.recipe import Value

YES = ("yes", "true", "t", "y", "1")
NO = ("no", "false", "f", "n", "0")
"""What transformers' ``hf_argparser.py:string_to_bool`` takes, in lower case."""
_SIZE = re.compile(r"[1-9][0-9]{0,5}")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"[-+]?([0-9]{1,30}[.]?[0-9]{0,30}|[.][0-9]{1,30})([eE][-+]?[0-9]{1,2})?")


def spell(value: Value) -> str:
    """Return a value as one text.

    >>> spell(["core_attn", "mlp"]), spell({"a": 1}), spell("x")
    ('core_attn mlp', '{"a": 1}', 'x')
    """
    if isinstance(value, dict):
        return json.dumps(value)
    return " ".join(value) if isinstance(value, list) else value


def is_size(text: str) -> bool:
    """Tell whether a text is a whole number from 1 to 999999, without signs and zeros."""
    return _SIZE.fullmatch(text) is not None


def is_whole(text: str) -> bool:
    """Tell whether a text is a whole number."""
    return _WHOLE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Tell whether a text is a number.

    >>> [t for t in ("5e-6", "1.", ".5", "nan", "1e999", "") if is_number(t)]
    ['5e-6', '1.', '.5']
    """
    return _NUMBER.fullmatch(text) is not None
