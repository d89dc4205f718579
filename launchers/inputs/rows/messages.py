"""The messages that ms-swift's readers make of a row (``preprocessor/core.py``)."""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from launchers.inputs.form_table import QUERIES
from launchers.inputs.rows import calls
from launchers.inputs.rows.columns import JSON_TEXTS, Dropped

ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant"}
ROLES |= dict.fromkeys(("function_call", "function-call"), "tool_call")
ROLES |= dict.fromkeys(
    ("function_response", "function-response", "observation", "observations"), "tool_response"
)


def joined(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of ``ResponsePreprocessor`` and ``AlpacaPreprocessor``."""
    query, response = row.get("query"), row.get("response")
    if "instruction" in row and "input" in row:
        parts = [row["instruction"], row["input"]]
        query = "\n".join(parts) if all(parts) else parts[0] or parts[1]
        if not isinstance(query, str):
            raise Dropped("dataset-content", f"a prompt that is {kind_of(query)}")
        response = response if row.get("output") is None else row["output"]
    elif query is None and len(asks := [n for n in QUERIES if isinstance(row.get(n), str)]) > 1:
        raise Dropped("dataset-prompts", f"no prompt: it could be {' or '.join(asks)}")
    if isinstance(response, list):
        response = response[0]
    history = row.get("history") or []
    history = ast.literal_eval(history) if isinstance(history, str) else history
    found = [] if row.get("system") is None else [{"role": "system", "content": row["system"]}]
    for each in [*history, [query, response]]:
        if not isinstance(each, list | tuple):
            raise Dropped("dataset-row-form", "a history that is not a list of [question, answer]")
        asked, answered, *_ = each
        found += [] if asked is None else [{"role": "user", "content": asked}]
        found += [] if answered is None else [{"role": "assistant", "content": answered}]
    return found


def standard(messages: Any, system: Any, release: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the messages of ``MessagesPreprocessor``, with the roles and keys of ms-swift."""
    if isinstance(messages, str):
        try:
            messages = json.loads(messages) if release >= JSON_TEXTS else ast.literal_eval(messages)
        except ValueError:
            messages = ast.literal_eval(messages)
    found = [
        {{"from": "role", "value": "content"}.get(key, key): value for key, value in turn.items()}
        for turn in calls.turns(messages or [], release)
    ]
    if not found or isinstance(messages, str):
        return []
    if "role" not in found[0] and "content" not in found[0]:
        return _rounds(found, system)
    if found[0]["role"] != "system" and system is not None:
        found.insert(0, {"role": "system", "content": system})
    for turn in found:
        turn["role"] = ROLES.get(turn["role"], turn["role"])
    return found


def _rounds(rounds: Sequence[Mapping[str, Any]], system: Any) -> list[dict[str, Any]]:
    """Return the messages of ``[{"human": ..., "assistant": ...}]``."""
    found = [] if system is None else [{"role": "system", "content": system}]
    for each in rounds:
        turn = {ROLES.get(key, key): value for key, value in each.items()}
        found += [{"role": role, "content": turn[role]} for role in ("user", "assistant")]
    return found


def kind_of(value: object) -> str:
    """Return the kind of a value in words."""
    names = {bool: "true or false", int: "a number", float: "a number", dict: "a map"} | {
        list: "a list"
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)
