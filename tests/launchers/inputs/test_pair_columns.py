"""A map of columns is advised only where it keeps the prompt (``tests/field`` tries each)."""

from typing import Any

import pytest

from launchers.inputs import row_forms
from launchers.inputs.row_advice import remedy
from launchers.inputs.row_pairs import Reader
from launchers.inputs.rows.columns import Dropped

ASKED = {"role": "user", "content": "q"}
GOOD, BAD = ({"role": "assistant", "content": text} for text in ("good", "bad"))
TEXTS = {"prompt": "q", "chosen": "good", "rejected": "bad"}
WHOLE = {"prompt": "q", "chosen": [ASKED, GOOD], "rejected": [ASKED, BAD]}
SHARED = {
    "chosen": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "good"}],
    "rejected": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "bad"}],
}
CALL = '{"name": "clock", "arguments": {}}'
EXPLICIT = {"prompt": [ASKED], "chosen": [GOOD], "rejected": [BAD]}
ALPACA = {"system": "s", "instruction": "q", "input": "x", "chosen": "good", "rejected": "bad"}


@pytest.mark.parametrize(
    "row",
    [
        EXPLICIT,
        {**EXPLICIT, "prompt": "q"},
        {**WHOLE, "system": "s"},
        {**TEXTS, "prompt": [ASKED]},
    ],
)
def test_a_map_by_which_the_prompt_is_lost_is_not_advised(row: dict[str, Any]) -> None:
    assert "recipe.args.columns" not in remedy([row])
    assert "recipe.args.external_plugins" in remedy([row])


@pytest.mark.parametrize(
    "row",
    [
        {**SHARED, "chosen": SHARED["chosen"][1:]},
        {"chosen": "q good", "rejected": "q bad"},
    ],
)
def test_rows_without_a_column_of_the_prompt_are_told_to_name_one(row: dict[str, Any]) -> None:
    assert remedy([row]).startswith("add the prompt as a column query")


@pytest.mark.parametrize(
    "row, wanted",
    [
        (TEXTS, "{chosen: response, rejected: rejected_response}"),
        (ALPACA, "{chosen: response, rejected: rejected_response}"),
        (WHOLE, "{chosen: messages, rejected: rejected_messages}"),
        (SHARED, "{chosen: messages, rejected: rejected_messages}"),
        ({**WHOLE, "rejected": [BAD]}, "{chosen: messages, rejected: rejected_response}"),
        ({**WHOLE, "messages": [ASKED, GOOD]}, "{rejected: rejected_messages}"),
        (
            {**TEXTS, "question": "other"},
            "{prompt: query, chosen: response, rejected: rejected_response}",
        ),
    ],
)
def test_a_map_with_the_pairs_of_the_form_is_advised(row: dict[str, Any], wanted: str) -> None:
    assert remedy([row]) == f"set recipe.args.columns: {wanted}"


@pytest.mark.parametrize("name", ["images", "videos", "audios"])
def test_a_form_gives_both_sides_what_the_prompt_has(name: str) -> None:
    row = {**EXPLICIT, name: ["https://a/b"]}
    (form,) = filter(None, [row_forms.find([row])])
    assert not Reader(columns=row_forms.COLUMNS).pair(form.read(row)).faults


@pytest.mark.parametrize(
    "before",
    [
        [{"role": "system", "content": [{"type": "text", "text": "s"}]}],
        [ASKED, {"role": "tool_call", "content": CALL}, {"role": "tool", "content": "12"}],
        [ASKED, GOOD, {"role": "system", "content": "s"}],
    ],
)
def test_the_models_own_template_takes_more_orders_and_parts(before: list[Any]) -> None:
    row = {"messages": [*before, ASKED, GOOD], "rejected_response": "bad"}
    assert not Reader(columns=[*row], is_jinja=True).pair(row).faults
    with pytest.raises(Dropped):
        Reader(columns=[*row]).pair(row)


@pytest.mark.parametrize(
    ("tools", "releases"),
    [([{"name": "a"}], 3), ('{"name": "a"}', 3), ({"name": "a"}, 1), ("", 2), ("null", 0)],
)
def test_tools_are_read_as_each_release_reads_them(tools: Any, releases: int) -> None:
    row = {"messages": [ASKED, GOOD], "rejected_response": "bad", "tools": tools}
    kept = 0
    for release in ((4, 4, 1), (4, 5, 3), (4, 6, 0)):
        try:
            kept += bool(Reader(columns=[*row], release=release).pair(row))
        except Dropped as drop:
            assert drop.id == "dataset-tools"
    assert kept == releases


def test_a_number_is_named_and_a_map_is_found_for_names_in_capitals() -> None:
    assert "make chosen a text" in remedy([{**TEXTS, "chosen": 1.5}])
    assert "{chosen: response" in remedy([{name.title(): text for name, text in TEXTS.items()}])
