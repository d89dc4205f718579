"""The value of a flag of ms-swift, as the recipe gives it and as ms-swift's parser reads it."""

import json
from typing import Any

Value = str | list[str] | dict[str, Any]
"""A flag's value: one string, several strings, or a map passed as JSON."""

YES = ("yes", "true", "t", "y", "1")
NO = ("no", "false", "f", "n", "0")
"""Values of a switch in lower case, as transformers' ``hf_argparser.py:string_to_bool`` accepts
them; it refuses any other text, such as ``on``."""


def words(value: Value) -> list[str]:
    """Return a flag's values, given as a list or as one text."""
    return value if isinstance(value, list) else str(value).split()


def as_text(value: Value) -> str:
    """Return a value as one text.

    >>> as_text(["core_attn", "mlp"]), as_text({"a": 1}), as_text("x")
    ('core_attn mlp', '{"a": 1}', 'x')
    """
    if isinstance(value, dict):
        return json.dumps(value)
    return " ".join(value) if isinstance(value, list) else value


def is_zero(text: str) -> bool:
    """Return whether a flag's text is the number zero; text that is not a number is not.

    >>> is_zero("0"), is_zero("0.0"), is_zero("0.01"), is_zero("some")
    (True, True, False, False)
    """
    try:
        return float(text) == 0
    except ValueError:
        return False


def switch(text: str) -> bool | None:
    """Return the value of a switch; None for a text that ms-swift's parser refuses.

    >>> switch("True"), switch("0"), switch("on")
    (True, False, None)
    """
    word = text.lower()
    if word in YES:
        return True
    return False if word in NO else None
