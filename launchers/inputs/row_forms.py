"""Built-in readers of the forms of pairs that people have, by the rows of ``form_table.py``.

A form is chosen by looking at rows, by the check and by training alike
(``training/tokens/row_forms.py``), and only where ms-swift itself would find no rejected answer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from launchers.inputs.form_table import AS_TEXT, FORMS, QUERIES
from launchers.inputs.rows.columns import Dropped

FILES = Path(__file__), Path(__file__).with_name("form_table.py")
"""What decides about the turns of a row."""
LOOKED_AT = 200
"""First rows by which a form is chosen."""
_TURN = re.compile(r"\n\n(Human|Assistant):[ ]?")
_ROLES = {
    **dict.fromkeys(("system", "user", "assistant", "tool", "tool_call", "tool_response"), ""),
    **dict.fromkeys(("human", "prompter"), "user"),
    **dict.fromkeys(("gpt", "bot", "model", "chatgpt", "ai"), "assistant"),
    "developer": "system",
    **dict.fromkeys(("function_call", "function-call"), "tool_call"),
    **dict.fromkeys(("observation", "observations", "function_response"), "tool_response"),
}
OWN = frozenset({"rejected_response", "rejected_messages"})
"""Columns that ms-swift's own readers take for the rejected side."""
_REASONS = ("reasoning_content", "reasoning", "thinking")
_LOST = ("history", "image", "video", "audio")
"""Columns that ms-swift's own readers pass on, and a form would leave out without a word."""
_PASSED = ("tools", "images", "videos", "audios")
"""Columns of both sides."""
COLUMNS = tuple(f"{side}{n}" for n in ("messages", *_PASSED) for side in ("", "rejected_"))
"""Columns of a row that a form has read."""

Turn = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One built-in reader."""

    name: str
    columns: Mapping[str, Sequence[str]]
    """Kinds that each column may have."""
    prompt: Sequence[str]
    sides: Sequence[str]

    def fits(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether most rows have this form; ms-swift drops the others, which is counted."""
        return 2 * sum(map(self._is_of, rows)) > len(rows)

    def _is_of(self, row: Mapping[str, Any]) -> bool:
        return all(
            any(_is(kind, _cell(name, row)) for kind in kinds)
            for name, kinds in self.columns.items()
        )

    def read(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row in ms-swift's form with messages and rejected_messages.

        Raises:
            Dropped: an answer is null; ms-swift drops the row, also for the next reason.
            ValueError: this row has another form.
        """
        for name, side in zip(self.sides, ("chosen", "rejected"), strict=True):
            if _cell(name, row) is None:
                id = "dataset-no-rejected" if side == "rejected" else "dataset-no-answer"
                raise Dropped(id, f"no {side} answer")
        first = [turn for part in self.prompt for turn in _turns(part, row, "user")]
        sides = [[*first, *_turns(name, row, "assistant")] for name in self.sides]
        if self.prompt and self.prompt[0].startswith("system") and _cell(self.prompt[0], row):
            sides = [turns[turns[1]["role"] == "system" :] for turns in sides]
        found: dict[str, Any] = {"messages": sides[0], "rejected_messages": sides[1]}
        for name, given in passed(row).items():
            found |= {name: given, f"rejected_{name}": given}
        return found


def passed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of both sides that have a value; OpenAI's input has its tools in it."""
    inner = row.get("input")
    places = (row, inner if isinstance(inner, Mapping) else {})
    return {name: each[name] for name in _PASSED for each in places if each.get(name)}


@cache
def forms() -> tuple[Form, ...]:
    """Return all forms, in the order in which they are tried."""
    return tuple(Form(**{"prompt": [], "sides": ["chosen", "rejected"], **each}) for each in FORMS)


def find(rows: Iterable[Mapping[str, Any]]) -> Form | None:
    """Return the form of a dataset's first rows; None where ms-swift's own readers are used.

    Args:
        rows: the first ``LOOKED_AT`` rows.

    >>> find([{"prompt": "q", "chosen": "a", "rejected": "b"}]).name
    'prompt and answers as texts (orca_dpo_pairs)'
    >>> find([{"query": "q", "response": "a", "rejected_response": "b"}]) is None
    True
    """
    looked_at = list(rows)
    if not looked_at or any(row.keys() & OWN for row in looked_at):
        return None
    if any(row.get(name) for row in looked_at for name in _LOST):
        return None
    return next((form for form in forms() if form.fits(looked_at)), None)


def column(name: str, row: Mapping[str, Any]) -> str:
    """Return the only column with a value that a name stands for; empty if there is none.

    Of two system prompts the column ``system`` counts, as for ms-swift.
    """
    name = name.rstrip("?").partition("[")[0]
    names = QUERIES if name == "PROMPT" else name.split("|")
    found = [each for each in names if row.get(each) is not None]
    return found[0] if len(found) == 1 or "system" in found else ""


def _cell(name: str, row: Mapping[str, Any]) -> Any:
    place = column(name, row)
    return row[place] if place else None


def _is(kind: str, value: object) -> bool:
    if kind in ("text", "transcript"):
        if not isinstance(value, str) or AS_TEXT.match(value):
            return False
        return value.lstrip("\n").startswith("Human:") == (kind == "transcript")
    if kind == "script":
        return _is("transcript", value) and value.rstrip().endswith("\n\nAssistant:")  # type: ignore[attr-defined]
    if kind == "texts":
        return isinstance(value, list) and len(value) == 2 and all(type(v) is str for v in value)
    if kind == "task":
        return isinstance(value, Mapping) and _is("asked", value.get("messages"))
    turns = [value] if kind == "answer" and isinstance(value, Mapping) else value
    if not isinstance(turns, list) or not turns:
        return False
    roles = [_role(turn) for turn in turns]
    by_model = [role in ("assistant", "tool_call") for role in roles]
    is_kind = by_model[0] == (kind == "answer") and not (kind == "asked" and by_model[-1])
    return all(roles) and is_kind


def _role(turn: object) -> str:
    given = turn.get("role", turn.get("from")) if isinstance(turn, Mapping) else None
    name = given.lower() if isinstance(given, str) else ""
    return (_ROLES[name] or name) if name in _ROLES else ""


def roles(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the roles of rows that have another name in a form, with that name."""
    values = [value for row in rows for value in row.values()]
    values += [each["messages"] for each in values if _is("task", each)]
    turns = [turn for each in values if isinstance(each, list) for turn in each if _role(turn)]
    named = {turn.get("role", turn.get("from")): _role(turn) for turn in turns}
    return {given: role for given, role in named.items() if given != role}


def _turns(part: str, row: Mapping[str, Any], role: str) -> list[Turn]:
    values = [value(name, row) for name in part.split("+")]
    texts = [each for each in values if isinstance(each, str)]
    if len(values) > 1 and len(texts) == len([v for v in values if v is not None]):
        return [{"role": role, "content": "\n".join(filter(None, texts))}]
    given = values[0]
    if isinstance(given, str) and _is("transcript", given):
        turns = _transcript(given)
        return turns[:-1] if role == "user" and not turns[-1]["content"] else turns
    if isinstance(given, str):
        role = "system" if part.startswith("system") else role
        return [{"role": role, "content": given}] if given or role != "system" else []
    if given is None and part.endswith("?"):
        return []
    found = given.get("messages", [given]) if isinstance(given, Mapping) else given
    if not isinstance(found, list) or not all(_role(turn) for turn in found):
        raise ValueError(f"{part}: neither a text nor a list of turns")
    return [
        {
            **{k: v for k, v in turn.items() if k not in ("from", "value", "role")},
            "role": _role(turn),
            "content": turn.get("content", turn.get("value")),
        }
        for turn in found
    ]


def value(name: str, row: Mapping[str, Any]) -> Any:
    """Return what a row has for a part of a form."""
    place = name.partition("[")[2]
    found = _cell(name, row)
    return found[int(place[0])] if place else found


def has_reasoning(row: Mapping[str, Any]) -> bool:
    """Return whether a turn has a text next to its content, which ms-swift drops."""
    lists = (value for value in row.values() if isinstance(value, list))
    turns = (turn for value in lists for turn in value if isinstance(turn, Mapping))
    return any(turn.get(name) for turn in turns for name in _REASONS)


def _transcript(text: str) -> list[Turn]:
    """Return the turns of a transcript of hh-rlhf.

    >>> [t["role"] for t in _transcript(chr(10) * 2 + "Human: q" + chr(10) * 2 + "Assistant: a")]
    ['user', 'assistant']
    """
    _, *parts = _TURN.split("\n\n" + text.lstrip("\n"))
    roles = {"Human": "user", "Assistant": "assistant"}
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [{"role": roles[who], "content": said.strip()} for who, said in pairs]
