"""What ms-swift makes of a row: two sides of a pair, or a reason for which it drops the row.

Follows ``swift/dataset/preprocessor/core.py`` (``AutoPreprocessor`` and the readers it chooses),
``swift/template/template_inputs.py`` and ``swift/template/base.py`` of 4.4.1, 4.5.3 and 4.6.0;
``tests/field`` compares it with ms-swift. A fault's id is that of the refusal when all rows have
it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, takewhile
from typing import Any

from launchers.inputs.form_table import ANSWERS, AS_TEXT, MEDIA, QUERIES, SYSTEMS, TALKS, TYPED
from launchers.inputs.rows import calls, columns
from launchers.inputs.rows import messages as messages_of
from launchers.inputs.rows.columns import JSON_TEXTS, Dropped
from launchers.inputs.rows.messages import kind_of

_MARKERS = re.compile(
    r"<\|(?:im_start|im_end|user|assistant|start_header_id|eot_id|endoftext)\|>|\[/?INST\]"
    r"|<(?:start|end)_of_turn>|\n\n(?:Human|Assistant):"
)
"""What templates of ChatML, Llama, Mistral, Gemma and GLM, and hh-rlhf, write around turns."""
LONG = 20
"""Characters from which an answer does not begin with its question by chance."""
_PARTS = ("text", "image", "audio", "video")
_BOTH = ("images", "videos", "audios")
"""Columns of the chosen side alone, where the rejected one has messages of its own."""
_KNOWN = ("system", "user", "tool_call", "tool_response", "tool", "assistant")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One text of a pair, before the template."""

    turns: Sequence[tuple[str, str]]
    """Role and text of each turn but the system prompt."""
    system: str | None = None
    tools: Sequence[Any] = ()
    trained: int | None = None
    """Index of the first turn whose own ``loss`` is true: trained on with any ``loss_scale``."""

    @property
    def asked(self) -> Sequence[tuple[str, str]]:
        """Return the turns up to the last one of the user."""
        last = max((n for n, (role, _) in enumerate(self.turns) if role == "user"), default=-1)
        return self.turns[: last + 1]

    @property
    def prompt(self) -> str:
        """Return the texts of the system prompt and of ``asked``."""
        return "\n".join([self.system or "", *(text for _, text in self.asked)])

    @property
    def answer(self) -> str:
        """Return the text behind ``asked``."""
        return "\n".join(text for _, text in self.turns[len(self.asked) :])


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both sides of a row that ms-swift keeps, and what is wrong with it."""

    chosen: Side
    rejected: Side
    faults: Mapping[str, str] = field(default_factory=dict)
    """Words for each id of a fault."""

    @property
    def has_one_prompt(self) -> bool:
        """Return whether both sides have the same prompt."""
        return self.chosen.prompt == self.rejected.prompt


@dataclass(frozen=True, kw_only=True)
class Reader:
    """ms-swift's reader of the rows of one dataset."""

    columns: Sequence[str]
    """Columns of the dataset; of a file without one of them a row has null there."""
    mapped: Mapping[str, str] = field(default_factory=dict)
    """``recipe.args.columns``."""
    release: tuple[int, ...] = (4, 4, 1)
    is_auto: bool = True
    """False with ``disable_auto_column_mapping``."""
    images: bool = True
    """Whether the files of images are looked at."""
    is_last_round: bool = True
    """Whether answers before the last question are not trained on (``loss_scale``)."""
    is_jinja: bool = False
    """Whether the model's own template writes the turns (``template_backend``), in any order."""

    def pair(self, row: Mapping[str, Any]) -> Pair:
        """Return the pair that ms-swift makes of a row.

        Raises:
            Dropped: ms-swift drops the row; any exception of its reader does.
        """
        try:
            return self._pair({name: row.get(name) for name in self.columns})
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, SyntaxError) as error:
            why = f"a form that ms-swift cannot read ({type(error).__name__})"
            raise Dropped("dataset-row-form", why) from None

    def unknown(self) -> list[str]:
        """Return the keys of the map of columns that are no column; ms-swift ignores them."""
        known = {name.lower() for name in self.columns}
        return [name for name in self.mapped if name.lower() not in known]

    def twice(self) -> dict[str, str]:
        """Return what the map renames to a column that exists too: a KeyError of ``datasets``."""
        renamed = _renames(self.columns, self.mapped)
        return {old: new for old, new in renamed.items() if new in {*self.columns} - {*renamed}}

    def names(self) -> dict[str, str]:
        """Return the name that each column has for ms-swift's reader."""
        first = _renames(self.columns, self.mapped)
        names = {name: first.get(name, name) for name in self.columns}
        own = dict(MEDIA)
        if self.is_auto:
            if any(name in TALKS for name in names.values()):
                own |= dict.fromkeys(TALKS, "messages") | dict.fromkeys(SYSTEMS, "system")
            else:
                own |= dict.fromkeys(SYSTEMS, "system") | dict.fromkeys(QUERIES, "query")
                own |= dict.fromkeys(ANSWERS, "response")
        second = _renames(list(names.values()), own)
        return {old: second.get(new, new) for old, new in names.items()}

    def typed(self) -> dict[str, str]:
        """Return those of ``names`` whose type the values decide; not tools from 4.6.0 on."""
        known = [name for name in TYPED if self.release < JSON_TEXTS or "tools" not in name]
        return {old: new for old, new in self.names().items() if new in known}

    def _pair(self, given: Mapping[str, Any]) -> Pair:
        names = self.names()
        row = {names[old]: value for old, value in given.items()}
        if any(name in TALKS for name in row):
            messages = messages_of.standard(row.get("messages"), row.get("system"), self.release)
            rejected = row.get("rejected_messages")
            if rejected is not None:
                rejected = messages_of.standard(rejected, None, self.release)
        else:
            messages, rejected = messages_of.joined(row), row.get("rejected_messages")
        if not messages:
            raise Dropped("dataset-messages", "no messages")
        columns.check(row, self.release)
        _check_rejected(row, messages)
        _check(messages, self)
        pair = _pair(row, messages, rejected, self)
        wrong = dict(islice(columns.images(row, self.images), 1))
        return replace(pair, faults={**pair.faults, **wrong})


def _renames(columns: Sequence[str], mapping: Mapping[str, str]) -> dict[str, str]:
    """Return what ``safe_rename_columns`` renames."""
    known = {name.lower(): name for name in columns}
    safe = {known[k.lower()]: v for k, v in mapping.items() if k.lower() in known}
    counts = Counter(safe.values())
    return {k: v for k, v in safe.items() if counts[v] == 1 and k != v}


def _check_rejected(row: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> None:
    """Drop as ``_check_rejected_response`` does."""
    if "rejected_response" not in row:
        if row.get("rejected_messages") is None:
            raise Dropped("dataset-no-rejected", "no rejected answer")
        return
    rejected = row["rejected_response"]
    if rejected is None:
        if row.get("rejected_messages") is not None:
            raise Dropped("dataset-two-forms", "rejected_messages, where others have a response")
        raise Dropped("dataset-no-rejected", "no rejected answer")
    if isinstance(rejected, str) and rejected == messages[-1].get("content"):
        raise Dropped("dataset-same-answers", "a rejected answer that equals the chosen one")
    if isinstance(rejected, list) and not all(isinstance(turn, Mapping) for turn in rejected):
        raise Dropped("dataset-rejected-list", "a list of texts as rejected_response")
    if not isinstance(rejected, str | list):
        raise Dropped("dataset-content", f"a rejected_response that is {kind_of(rejected)}")


def _check(messages: Sequence[Mapping[str, Any]], reader: Reader) -> None:
    """Drop what ``_check_messages`` and the template refuse."""
    previous = ""
    for turn in messages:
        role, content = turn["role"], turn.get("content")
        if role not in _KNOWN:
            shown = f"the unknown role {role!r}" if len(str(role)) < 20 else "an unknown role"
            raise Dropped("dataset-role", shown)
        if content is None:
            raise Dropped("dataset-content", "a turn whose content is null")
        if role == "system" and not (isinstance(content, str) or reader.is_jinja):
            raise Dropped("dataset-content", f"a system prompt that is {kind_of(content)}")
        if isinstance(turn.get("loss_scale"), str):
            raise Dropped("dataset-row-form", "a loss_scale that is a text")
        is_loose = role in ("tool", "tool_response") and previous in ("user", "system", "")
        if is_loose and reader.release < calls.RELEASE and not reader.is_jinja:
            raise Dropped("dataset-tool-turn", "a tool turn without a call before it")
        if role == "user" and previous in ("tool", "tool_response") and not reader.is_jinja:
            raise Dropped("dataset-tool-turn", "a user's turn right behind a tool's")
        if role == "tool_call":
            calls.text_of(content)
        elif role == "system" and previous and not reader.is_jinja:
            raise Dropped("dataset-role", "a system prompt that is not the first turn")
        previous = role


def _pair(
    row: Mapping[str, Any],
    messages: Sequence[Mapping[str, Any]],
    rejected: Any,
    reader: Reader,
) -> Pair:
    release = reader.release
    response, is_messages = row.get("rejected_response"), rejected is not None
    chosen = _side(messages, row.get("tools"))
    if response is not None:
        answer = (
            [{"role": "assistant", "content": response}]
            if isinstance(response, str)
            else [{**turn} for turn in calls.openai(response, release)]
        )
        if any(turn["role"] == "user" for turn in answer):
            raise Dropped("dataset-rejected-list", "a user's turn in rejected_response")
        is_behind = calls.RELEASE <= release < calls.WHOLE_ANSWER
        asking = ("user", "tool") if is_behind else ("user",)
        last = max((n for n, turn in enumerate(messages) if turn["role"] in asking), default=-1)
        if [t["content"] for t in messages[last + 1 :]] == [t["content"] for t in answer] and (
            len(answer) == 1
        ):
            raise Dropped("dataset-same-answers", "a rejected answer that equals the chosen one")
        rejected = [*messages[: last + 1], *answer]
        _check(rejected, reader)
    elif not is_messages:
        raise Dropped("dataset-no-rejected", "no rejected answer")
    else:
        rejected = calls.openai(rejected, release)
        _check(rejected, reader)
    tools = row.get("rejected_tools", None if is_messages else row.get("tools"))
    other = _side(rejected, tools)
    faults = dict(_faults(chosen, other, reader))
    if release < calls.RELEASE and any(turn.get("tool_calls") for turn in [*messages, *rejected]):
        faults["dataset-tool-calls"] = "tool_calls, which ms-swift drops before 4.5.3"
    lacks = [n for n in _BOTH if is_messages and bool(row.get(n)) != bool(row.get(f"rejected_{n}"))]
    if lacks:
        faults["dataset-sides-differ"] = f"{lacks[0]} that only one side has"
    for name, turns in (("chosen", messages), ("rejected", rejected)):
        if _is_untrained(turns):
            faults["dataset-no-answer"] = f"no {name} answer to train on: its loss is false or 0"
    return Pair(chosen=chosen, rejected=other, faults=faults)


def _is_untrained(turns: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether ``loss`` or ``loss_scale`` of the answer's turns leave no token to train."""
    last = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=-1)
    answers = [turn for turn in turns[last + 1 :] if turn["role"] == "assistant"]
    off = [t for t in answers if t.get("loss") in (False,) or t.get("loss_scale") in (0,)]
    return len(off) == len(answers) > 0


def _side(messages: Sequence[Mapping[str, Any]], tools: Any) -> Side:
    turns = [(turn["role"], _content(turn)) for turn in messages]
    if not turns:
        raise Dropped("dataset-messages", "no messages")
    system = turns.pop(0)[1] if turns[0][0] == "system" else None
    own = [bool(turn.get("loss")) for turn in messages[len(messages) - len(turns) :]]
    trained = own.index(True) if any(own) else None
    return Side(turns=turns, system=system, tools=columns.tools_of(tools), trained=trained)


def _content(turn: Mapping[str, Any]) -> str:
    """Return a turn's text as ``remove_messages_media`` joins it."""
    role, content, dropped = turn["role"], turn.get("content"), turn.get("tool_calls")
    if dropped:
        return f"{content or ''}{json.dumps(dropped)}"
    if role == "tool_call":
        return calls.text_of(content)
    if isinstance(content, str):
        return content
    if role in ("tool", "tool_response"):
        return json.dumps(content)
    if not isinstance(content, list):
        raise Dropped("dataset-content", f"a content that is {kind_of(content)}")
    if any(not isinstance(part, Mapping) or "type" not in part for part in content):
        raise Dropped("dataset-content", "a content that is a list of texts")
    for part in content:
        if part["type"].removesuffix("_url") not in _PARTS:
            shown = f"a part of type {part['type']}"[:60]
            raise Dropped("dataset-part", f"{shown}, in place of which ms-swift writes its name")
    return "".join(p["text"] if p["type"] == "text" else f"<{p['type']}>" for p in content)


def _faults(chosen: Side, rejected: Side, reader: Reader) -> Iterable[tuple[str, str]]:
    pair = chosen, rejected
    for name, side in zip(("chosen", "rejected"), pair, strict=True):
        if not side.turns or side.turns[-1][0] == "user":
            yield "dataset-no-answer", f"no {name} answer: the conversation ends with the user"
            return
        if side.turns[-1][0] in ("tool", "tool_response"):
            yield "dataset-no-answer", f"no {name} answer: the conversation ends with a tool"
            return
    if (chosen.turns, chosen.system) == (rejected.turns, rejected.system):
        yield "dataset-same-answers", "equal sides"
    elif not (chosen.answer.strip() and rejected.answer.strip()):
        empty = "rejected" if chosen.answer.strip() else "chosen"
        yield "dataset-empty-answer", f"an empty {empty} answer"
    elif (chosen.system or "") != (rejected.system or ""):
        yield "dataset-sides-differ", "a system prompt that only one side has"
    elif chosen.tools != rejected.tools:
        yield "dataset-sides-differ", "tools that only one side has"
    elif _untrained(chosen, reader) != _untrained(rejected, reader):
        yield "dataset-sides-differ", "prompts that differ between the sides"
    elif any(one != two for one, two in zip(*(_before(s, reader) for s in pair), strict=False)):
        yield "dataset-sides-differ", "calls or results of tools that differ before the last answer"
    elif _is_loose(chosen) != _is_loose(rejected) or (
        len(_before(chosen, reader)) != len(_before(rejected, reader))
    ):
        yield "dataset-tool-turn-differs", "a tool turn that only one side has"
    elif chosen.answer.split() == rejected.answer.split():
        yield "dataset-space-differs", "answers that differ in white space alone"
    elif not any(text.strip() for _, text in chosen.asked):
        yield "dataset-no-prompt", "no prompt"
    elif all(map(_repeats, pair)):
        yield "dataset-prompt-twice", "answers that begin with the prompt"
    elif any(map(_MARKERS.search, (chosen.prompt, chosen.answer, rejected.answer))):
        yield "dataset-markers", "a template's markers in its texts"
    elif any(map(AS_TEXT.match, (chosen.asked[-1][1], chosen.answer, rejected.answer))):
        yield "dataset-markers", "turns as one text"
    elif any(map(_is_joined, pair)):
        yield "dataset-turns-joined", "turns of one role in a row, which ms-swift joins in one word"
    elif chosen.system != rejected.system:
        yield "dataset-system-empty", "an empty system prompt on one side, the default on the other"


def _untrained(side: Side, reader: Reader) -> Sequence[tuple[str, str]]:
    """Return the turns before the first that is trained on."""
    if reader.is_last_round:
        return side.asked[: side.trained]
    return [*takewhile(lambda turn: turn[0] not in ("assistant", "tool_call"), side.turns)]


def _before(side: Side, reader: Reader) -> Sequence[tuple[str, str]]:
    """Return the turns before the last answer, if ``last_round`` leaves its calls without labels.

    It does from 4.5.3 on (``get_last_user_round``); before, a round began with the user's turn.
    """
    if not reader.is_last_round or reader.release < calls.RELEASE:
        return ()
    answer = takewhile(lambda turn: turn[0] in ("assistant", "tool_call"), reversed(side.turns))
    return side.turns[: len(side.turns) - len([*answer])][: side.trained]


def _is_joined(side: Side) -> bool:
    """Return whether a turn follows one of its role, with no white space between their texts."""
    return any(
        one[0] == two[0] in ("user", "assistant")
        and not re.search(r"\s$|^$", one[1])
        and not re.match(r"\s|$", two[1])
        for one, two in pairwise(side.turns)
    )


def _repeats(side: Side) -> bool:
    """Return whether the answer begins with the whole last question."""
    asked = side.asked[-1][1].strip()
    return len(asked) > LONG and side.answer.lstrip().startswith(asked)


def _is_loose(side: Side) -> bool:
    """Return whether the answer begins with a tool turn that no call precedes."""
    answer = side.turns[len(side.asked) :]
    return bool(answer) and answer[0][0] in ("tool", "tool_response")
