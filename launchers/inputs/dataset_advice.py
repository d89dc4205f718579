"""What makes pairs of the two forms that most datasets on hubs have, those of TRL.

Tried with ``AutoPreprocessor`` and ``TemplateInputs`` of ms-swift 4.4.1: a map of columns keeps the
prompt where it is text beside texts, or in the conversations. Where ``chosen`` is a conversation
that begins with the answer (TRL's explicit prompt), or ``prompt`` a list, no map does: the prompt
is lost without a word, or each row fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = "{chosen: response, rejected: rejected_response}"
_CONVERSATIONS = "{chosen: messages, rejected: rejected_messages}"
_PROMPTS = ("query", "prompt", "input", "instruction", "question", "problem")
"""Columns that ms-swift takes for the prompt, if it is one of them (``ResponsePreprocessor``)."""
_ASSISTANT = ("assistant", "gpt", "bot")
"""``MessagesPreprocessor``'s names of who answers."""
_PAIR = ("chosen", "rejected")


def remedy(row: Mapping[str, Any]) -> str:
    """Return what to write for rows without a ``rejected_`` column.

    Args:
        row: one of them.

    >>> remedy({"prompt": "q", "chosen": "a", "rejected": "b"})
    'write recipe.args.columns: {chosen: response, rejected: rejected_response}'
    """
    if _is_texts(row):
        return f"write recipe.args.columns: {_TEXTS}"
    if all(_has_prompt(row.get(name)) for name in _PAIR):
        return f"write recipe.args.columns: {_CONVERSATIONS}"
    if all(isinstance(row.get(name), str | list) for name in _PAIR):
        return (
            "name a plugin that joins the prompt and each answer, which no map of columns does: "
            "recipe.args.external_plugins; or write messages and rejected_response"
        )
    return (
        "write messages and rejected_response, or name a plugin or a map of columns: "
        "recipe.args.external_plugins, recipe.args.columns"
    )


def _is_texts(row: Mapping[str, Any]) -> bool:
    """Tell whether prompt and answers are texts; of two prompts ms-swift takes none."""
    prompts = [row[name] for name in _PROMPTS if name in row]
    return len(prompts) == 1 and all(
        isinstance(each, str) for each in (*prompts, *(row.get(name) for name in _PAIR))
    )


def _has_prompt(messages: object) -> bool:
    """Tell whether a conversation begins with somebody else than the assistant."""
    if not isinstance(messages, list) or not messages or not isinstance(messages[0], Mapping):
        return False
    return messages[0].get("role", messages[0].get("from")) not in _ASSISTANT
