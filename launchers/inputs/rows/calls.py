"""Calls of tools in messages, as ms-swift reads them.

From 4.5.3 on it turns those of OpenAI and Anthropic into turns of its own
(``preprocessor/core.py``: ``normalize_provider_messages``); a call's text is read by
``agent_template/base.py``: ``_parse_tool_call``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launchers.inputs.rows.columns import Dropped, parsed

RELEASE = (4, 5, 3)
"""Release from which ms-swift reads such calls, and tool turns without a call."""
WHOLE_ANSWER = (4, 6, 0)
"""Release from which ``rejected_response`` replaces calls and their results again: between both it
stands behind the last turn of role tool (``template_inputs.py``: ``_compat_rejected_response``)."""
_LOSS = ("loss", "loss_scale")
_ID = "dataset-tool-call"


def turns(messages: Sequence[Any], release: tuple[int, ...]) -> Sequence[Any]:
    """Return messages in which each call and each result is a turn.

    Raises:
        Dropped: a part of a content in Anthropic's form is of an unknown type.
    """
    lists = [turn["content"] for turn in messages if isinstance(turn.get("content"), list)]
    parts = [part for each in lists for part in each if isinstance(part, Mapping)]
    if release < RELEASE or any(turn.get("tool_calls") for turn in messages):
        return openai(messages, release)
    if any(p.get("type") in ("tool_use", "tool_result") or "source" in p for p in parts):
        return [each for turn in messages for each in _anthropic(turn)]
    return messages


def openai(messages: Sequence[Any], release: tuple[int, ...]) -> Sequence[Any]:
    """Return messages with the calls of each turn's ``tool_calls`` as turns behind it."""
    if release < RELEASE:
        return messages
    found: list[Any] = []
    for turn in messages:
        calls = turn.get("tool_calls") if turn.get("role") == "assistant" else None
        more = {name: turn[name] for name in _LOSS if name in turn}
        if not calls or turn.get("content"):
            found.append({**turn, "tool_calls": None})
        for call in calls or ():
            function = call.get("function", call)
            made = {"arguments": function.get("arguments", {})}
            made |= {"name": function["name"]} if "name" in function else {}
            found.append({"role": "tool_call", "content": made, **more})
    return found


def _anthropic(turn: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the turns of one whose content may have blocks."""
    if not isinstance(turn.get("content"), list):
        yield turn
        return
    more, text = {name: turn[name] for name in _LOSS if name in turn}, ""
    for block in [*turn["content"], {}]:
        kind = block.get("type")
        if kind in ("text", "image"):
            text += _text([block])
            continue
        if text:
            yield {"role": turn["role"], "content": text, **more}
            text = ""
        if kind == "tool_use":
            made = {"name": block["name"], "arguments": block.get("input", {})}
            yield {"role": "tool_call", "content": made, **more}
        elif kind == "tool_result":
            yield {"role": "tool_response", "content": _text(block.get("content", "")), **more}
        elif block:
            raise Dropped("dataset-part", f"a part of type {kind} next to calls"[:60])


def _text(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    kinds = {block.get("type") for block in content} - {"text", "image"}
    if kinds:
        raise Dropped("dataset-part", f"a part of type {kinds.pop()} in a tool's result"[:60])
    return "".join(b.get("text", "") if b["type"] == "text" else "<image>" for b in content)


def text_of(content: Any) -> str:
    """Return the text that the template makes of a turn of role tool_call: name, then arguments.

    Raises:
        Dropped: it is not a map, or has no name or arguments that can be read.
    """
    call = parsed(content)
    if not isinstance(call, Mapping) or "name" not in call:
        raise Dropped(_ID, "a tool_call that is not a JSON map with name and arguments")
    given = call.get("arguments")
    given = call.get("parameters") if given is None else given
    if given is None:
        raise Dropped(_ID, "a tool_call without arguments")
    if (arguments := parsed(_json(given))) is None:
        raise Dropped(_ID, "a tool_call whose arguments are not JSON")
    return json.dumps({"name": call["name"], "arguments": arguments})


def _json(text: Any) -> Any:
    """Return OpenAI's arguments, which are read twice: as a text, then as ms-swift's own."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text
