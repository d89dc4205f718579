"""The map of columns, or the plugin, by which ms-swift reads a form of rows.

A map is advised only if ms-swift's reader makes the same pairs with it as the built-in form.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launchers.inputs import row_forms
from launchers.inputs.form_table import ANSWERS, QUERIES, TALKS
from launchers.inputs.row_forms import Form
from launchers.inputs.row_pairs import Pair, Reader
from launchers.inputs.rows import calls
from launchers.inputs.rows.columns import Dropped
from launchers.inputs.rows.messages import ROLES, kind_of

REMEDIES = {
    "dataset-no-rejected": "give each row a rejected answer: rejected_response or "
    "rejected_messages; ms-swift drops the others",
    "dataset-same-answers": "ms-swift drops such rows, or learns nothing from them: give each row "
    "a different rejected answer",
    "dataset-two-forms": "give all rows of all files one form: rejected_response, or "
    "rejected_messages",
    "dataset-content": "make every content a text, or, except the system prompt, a list of maps "
    "with a type",
    "dataset-rejected-list": "write one row for each rejected answer, as a text",
    "dataset-messages": "give each row messages",
    "dataset-role": "use the roles system (first turn only), user, assistant, tool_call, "
    "tool_response",
    "dataset-tool-turn": "put the turn with the call before it, or use ms-swift 4.5.3; and the "
    "assistant's turn behind it",
    "dataset-tool-call": 'write {"name": ..., "arguments": {...}} as the content of tool_call',
    "dataset-tool-calls": "write each call as a turn of role tool_call whose content is "
    '{"name": ..., "arguments": ...}, or use ms-swift 4.5.3 (recipe.swiftVersion)',
    "dataset-no-answer": "end both sides with the assistant's turn",
    "dataset-sides-differ": "give both sides the same system prompt, tools and prompt: the system "
    "prompt as a turn of messages and of rejected_messages, rejected_tools as well as tools, and "
    "rejected_images as well as images; loss_scale: default trains on calls of tools too",
    "dataset-image": "name images by paths that the pods have, or remove the column",
    "dataset-empty-answer": "give both sides an answer: an empty one trains the end of its turn",
    "dataset-part": "use parts of type text, image, audio and video",
    "dataset-objects": "rename the column objects, or give it bbox, ref and bbox_type",
    "dataset-margin": "make margin a number, or rename the column",
    "dataset-tools": "make tools a list of maps, as JSON or not, or remove the column",
    "dataset-row-form": "use rejected_response and messages, each with role and content",
    "dataset-prompts": "name one of them: recipe.args.columns, such as {prompt: query}",
}
"""Remedy of each fault of rows that may refuse a dataset, by the id of the refusal."""
_MAPS = (
    {"chosen": "messages", "rejected": "rejected_messages"},
    {"rejected": "rejected_messages"},
    {"chosen": "response", "rejected": "rejected_response"},
    {"rejected": "rejected_response"},
    {"chosen_response": "response"},
    {"chosen": "response"},
    {"chosen": "messages", "rejected": "rejected_response"},
    {"response_j": "response", "response_k": "rejected_response"},
    {"conversations": "messages", "rejected": "rejected_response"},
)
_BETTER, _WORSE = (
    re.compile(rf"(?:^|[\W_])(?:{words})s?(?:[\W_]|$)|{signs}", re.IGNORECASE)
    for words, signs in (
        (
            "chosen|accept|accepted|preferred|win|winner|winning|better|best|pos|positive|good"
            "|correct|true|safe|w",
            "[好优]|接受|选中",
        ),
        (
            "rejected|reject|dispreferred|non_preferred|lose|loser|losing|worse|worst|neg|negative"
            "|bad|incorrect|wrong|false|unsafe|less|l",
            "[坏差劣]|拒绝",
        ),
    )
)
"""Words in the names of columns with answers."""
_NUMBERED = re.compile(r"(.*?)_?([0-9ABab])(_\D*)?")
"""Columns of answers that another column compares: HelpSteer, PKU-SafeRLHF, arenas."""
_JOINS = (
    "use a plugin that joins the prompt and each answer, which a map of columns cannot do: "
    "recipe.args.external_plugins; or use messages and rejected_response"
)
_BARE = "add the prompt as a column query, or write messages and rejected_response"
_OTHER = (
    "use messages and rejected_response, or a plugin or a map of columns: "
    "recipe.args.external_plugins, recipe.args.columns"
)


def remedy(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the remedy for rows that make no pairs, by their form.

    >>> remedy([{"prompt": "q", "chosen": "a", "rejected": "b"}])
    'set recipe.args.columns: {chosen: response, rejected: rejected_response}'
    """
    found = columns(rows)
    if found:
        pairs = ", ".join(f"{old}: {new}" for old, new in found.items())
        return f"set recipe.args.columns: {{{pairs}}}"
    row = rows[0] if rows else {}
    for name in ("prompt", "chosen", "rejected"):
        value = row.get(name)
        inner = kind_of(value[0]) if isinstance(value, list) and value else ""
        if inner == "str":
            inner = "a text"
        if isinstance(value, bool | int | float) or inner in ("a text", "a list"):
            is_what = f"a list, and its first entry {inner}" if inner else kind_of(value)
            return f"make {name} a text or a list of turns: it is {is_what}"
    if all(isinstance(row.get(name), str | list) for name in ("chosen", "rejected")):
        return _JOINS if {*QUERIES, *TALKS} & {*row} else _BARE
    if inner := _nested(rows):
        return inner
    if many := [n for n in _texts_of(row) if _WORSE.search(n)]:
        return f"write one row for each text of {many[0]}, as rejected_response"
    if len(many := [n for n in row if _WORSE.search(n) and _NUMBERED.fullmatch(n)]) > 1:
        return f"write one row for each of {' and '.join(many)}, as rejected_response"
    if compared := _compared(row):
        return f"write a better one of {compared} as chosen, a worse as rejected, and the prompt"
    if "label" in row:
        return f"set recipe.args.rlhf_type: kto for answers with a label; or {_OTHER}"
    answers = [name for name in ANSWERS if isinstance(row.get(name), str)]
    if len(answers) == 1 and {*QUERIES, *TALKS} & {*row} and row.get("rejected_response") is None:
        return f"each row has one answer, {answers[0]}: add a worse one as rejected_response"
    return _OTHER


def _nested(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what to write of answers that a map in one column holds; empty without one.

    >>> _nested([{"prompt": "q", "pair": {"win": "a", "lose": "b"}}])
    'write the fields of pair as columns, and recipe.args.columns: {win: response, lose: \
rejected_response}'
    """
    for name, inner in (rows[0] if rows else {}).items():
        if isinstance(inner, Mapping) and any(map(_WORSE.search, map(str, inner))):
            found = columns([{**row, **(row.get(name) or {})} for row in rows]) or {}
            pairs = ", ".join(f"{old}: {new}" for old, new in found.items())
            said = f"write the fields of {name} as columns, and recipe.args.columns: {{{pairs}}}"
            return said if found else ""
    return ""


def _compared(row: Mapping[str, Any]) -> str:
    """Return the two or more answers of a row that only a number or a rank tells apart.

    >>> _compared({"answer_0": "a", "answer_1": "b"}), _compared({"ranked": [{"a": 1}, {"a": 2}]})
    ('answer_0 and answer_1', 'the maps in ranked')
    """
    sizes = {n: len(str(v)) for n, v in row.items() if isinstance(v, str | list) or _is_turn(v)}
    stems = {n: m.group(1, 3) for n in sizes if (m := _NUMBERED.fullmatch(n)) and row[n]}
    alike = [
        [n for n, each in stems.items() if each == stem] for stem in dict.fromkeys(stems.values())
    ]
    if several := [names for names in alike if len(names) > 1]:  # the longest are the answers
        names = max(several, key=lambda names: sum(sizes[name] for name in names))
        return f"{', '.join(names[:-1])} and {names[-1]}"
    maps = [
        n for n, v in row.items() if isinstance(v, list) and len(v) > 1 and all(map(_is_plain, v))
    ]
    if maps:
        return f"the maps in {max(maps, key=sizes.__getitem__)}"
    if texts := _texts_of(row):
        return f"the texts in {max(texts, key=sizes.__getitem__)}"
    turns = [v[-1] for n in TALKS if isinstance(v := row.get(n), list) and v and _is_turn(v[-1])]
    return _compared({n: v for n, v in turns[0].items() if n != "content"}) if turns else ""


def _texts_of(row: Mapping[str, Any]) -> list[str]:
    """Return the columns with two or more texts."""
    return [
        name
        for name, value in row.items()
        if isinstance(value, list) and len(value) > 1 and all(isinstance(t, str) for t in value)
    ]


def _is_turn(value: object) -> bool:
    return isinstance(value, Mapping) and bool({"role", "from"} & {*value})


def _is_plain(value: object) -> bool:
    """Return whether a value is a map, and no turn of a talk."""
    return isinstance(value, Mapping) and not _is_turn(value)


def columns(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, str] | None:
    """Return a map with which ms-swift makes the pairs of the rows' form; None without one."""
    form = row_forms.find(rows) or row_forms.find(rows[:1])
    names = list(dict.fromkeys(name for row in rows for name in row))
    asks = [name for name in QUERIES if name in names]
    named = [{name: "query"} | each for name in asks for each in _MAPS] if len(asks) > 1 else []
    for mapped in (*_MAPS, *_by_words(rows), *named):
        reader = Reader(columns=names, mapped=mapped, release=calls.RELEASE, images=False)
        if not {*map(str.lower, mapped)} <= {*map(str.lower, names)} or reader.twice():
            continue
        if {*mapped} <= {*mapped.values()}:  # names that they have
            continue
        if _makes_same(reader, form, rows) if form else _makes_pairs(reader, rows):
            return mapped
    return None


def _by_words(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
    """Yield maps of the two columns whose names tell the answers, or of the rejected one alone.

    The prompt is in a column that ms-swift knows, or in the only other one with a phrase. A column
    that holds another's name or number only tells which answer is the better one.
    """
    names = [
        name
        for row in rows[:1]
        for name, value in row.items()
        if isinstance(value, list) or (isinstance(value, str) and not _names_one(value, row))
    ]
    worse = [name for name in names if _WORSE.search(name)]
    better = [name for name in names if _BETTER.search(name) and name not in worse]
    if len(worse) == 1 and len(better) < 2:
        for one, two in ("response", "rejected_response"), ("messages", "rejected_messages"):
            yield {**dict.fromkeys(better, one), worse[0]: two}
        phrases = [
            name
            for name in names
            if name not in (*better, *worse) and _is_phrase(str(rows[0][name]))
        ]
        if len(phrases) == 1 and better:
            yield {phrases[0]: "query", better[0]: "response", worse[0]: "rejected_response"}


def _names_one(value: str, row: Mapping[str, Any]) -> bool:
    """Return whether a text names one of several numbered columns of a row."""
    return any(_NUMBERED.fullmatch(name) and value in (name, name[-1]) for name in row)


def _is_phrase(text: str) -> bool:
    return len(text.split()) > 2 or not text.isascii()


def plugin(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return a plugin with which ms-swift reads the rows' form; empty for a form without one.

    Args:
        rows: the first rows of the dataset.
        name: its file; ms-swift compares the last part of the path.
    """
    form = row_forms.find(rows)
    if form is None or "transcript" in form.name:
        return ""
    row = next(each for each in rows if form.fits([each]))
    prompt = [code for part in form.prompt if (code := _optional(part, rows))]
    sides = [
        " + ".join([*(["prompt"] if prompt else []), _code(part, row, "assistant")])
        for part in form.sides
    ]
    given = ", ".join(
        re.sub(r"^\w+", lambda name: f"row['{name[0]}']", part) for part in form.sides
    )
    roles = {k: v for k, v in row_forms.roles(rows).items() if k not in ROLES}
    named = (
        f"        roles = {roles}\n"
        "        for turn in sides['messages'] + sides['rejected_messages']:\n"
        "            name = 'role' if 'role' in turn else 'from'\n"
        "            turn[name] = roles.get(turn[name], turn[name])\n"
    )
    names = [*dict.fromkeys(name for each in rows for name in row_forms.passed(each))]
    inner = "input" if isinstance(row.get("input"), Mapping) else ""
    once = (
        "        for turns in sides.values():\n"
        "            roles = [turn.get('role', turn.get('from')) for turn in turns[:2]]\n"
        "            del turns[: roles == ['system', 'system']]\n"
    )
    more = (
        f"        for name in {names}:\n"
        f"            given = row{f'[{inner!r}]' if inner else ''}.get(name)\n"
        "            sides |= {name: given, f'rejected_{name}': given} if given else {}\n"
    )
    first = f"        prompt = {' + '.join(prompt)}\n" if prompt else ""
    return (
        "from swift.dataset import DatasetMeta, MessagesPreprocessor, register_dataset\n"
        "class Pairs(MessagesPreprocessor):\n"
        "    def preprocess(self, row):\n"
        f"{first}"
        f'        sides = {{"messages": {sides[0]}, "rejected_messages": {sides[1]}}}\n'
        f"{named if roles else ''}"
        f"{once if 'system' in first else ''}"
        f"{more if names else ''}"
        f"        return None if None in ({given}) else super().preprocess(sides)\n"
        f'register_dataset(DatasetMeta(dataset_path="{name}", preprocess_func=Pairs()))\n'
    )


def _optional(part: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the same as ``_code`` of a prompt's part that rows may lack, or have as null."""
    has = [row for row in rows if row_forms.column(part, row)]
    code = _code(part, (has or rows)[0], "user")
    if not has or len(has) == len(rows) or not part.endswith("?"):
        return code
    return f"({code} if row[{row_forms.column(part, has[0])!r}] else [])"


def _code(part: str, row: Mapping[str, Any], role: str) -> str:
    """Return an expression for the turns of one part of a form; empty if the row has none."""
    columns = [name for each in part.split("+") if (name := row_forms.column(each, row))]
    if not columns:
        return ""
    renamed = dict.fromkeys(TALKS, "messages") | {"system_prompt": "system"}
    columns = [renamed.get(name, name) for name in columns]  # by ms-swift, before the plugin
    at = part[part.index("[") :] if "[" in part else ""
    value = row_forms.value(part, row) if "+" not in part else ""
    if isinstance(value, list):
        return f"row[{columns[0]!r}]"
    if isinstance(value, Mapping):
        whole = f"row[{columns[0]!r}]"
        return f"{whole}['messages']" if "messages" in value else f"[{whole}]"
    role = "system" if part.startswith("system") else role
    texts = ", ".join(f"row[{name!r}]{at}" for name in columns)
    text = texts if len(columns) == 1 else f"'\\n'.join(filter(None, [{texts}]))"
    return f'[{{"role": {role!r}, "content": {text}}}]'


def _makes_same(reader: Reader, form: Form, rows: Sequence[Mapping[str, Any]]) -> bool:
    own, count = Reader(columns=row_forms.COLUMNS, release=calls.RELEASE), 0
    for row in rows:
        try:
            wanted = own.pair(form.read(row))
        except (Dropped, ValueError, KeyError, TypeError, IndexError):
            continue
        try:
            made = reader.pair(row)
        except Dropped:
            return False
        if _texts(made) != _texts(wanted):
            return False
        count += 1
    return count > 0


def _makes_pairs(reader: Reader, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a reader makes a pair without a fault of every row, and there is one."""
    try:
        faults = {name for row in rows for name in reader.pair(row).faults}
        return bool(rows) and not faults - {"dataset-image-unseen"}
    except Dropped:
        return False


def _texts(pair: Pair) -> list[Any]:
    return [[side.system, side.tools, *side.turns] for side in (pair.chosen, pair.rejected)]
