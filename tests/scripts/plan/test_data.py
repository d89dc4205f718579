"""Number and lengths of the pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchers.plan import run_length
from launchers.plan.run_length import Data
from scripts.plan.inputs import CHARACTERS_PER_TOKEN, find_data
from scripts.problem import Problem


def row(prompt: int, chosen: int, rejected: int) -> str:
    contents = {"user": "p" * prompt, "assistant": "c" * chosen}
    messages = [{"role": role, "content": content} for role, content in contents.items()]
    return json.dumps({"messages": messages, "rejected_response": "r" * rejected}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    path.write_text(row(40, 80, 80) + row(40, 120, 120) + "\n")
    return path


def data(*sources: str, **given: Any) -> Data:
    found = find_data(sources, **given)
    assert found is not None
    return found


def test_a_local_file_is_counted_with_its_sample_and_what_the_caller_says_wins(file: Path) -> None:
    found = data(f"file://{file}")  # a prompt counts with both answers
    assert (found.pairs, found.tokens) == (2, (240 + 320) / 2 / CHARACTERS_PER_TOKEN)
    assert data(f"file://{file}#50", f"file://{file}").pairs == 52
    found = data(f"file://{file}", pairs=7, tokens=100)
    assert (found.pairs, found.tokens, found.source) == (7, 100, "7 pairs of 100 tokens")


def test_an_assumed_length_is_reported() -> None:
    found = data("hf://o/d@main", pairs=7)
    assert found.tokens == run_length.TOKENS
    assert "2,048 tokens assumed (--tokens)" in found.source
    assert find_data(["hf://o/d@main#4", "ms://o/e@master#3"]) == found


def test_prompts_that_are_computed_once_fill_packs_once(file: Path) -> None:
    found = data(f"file://{file}", tokens=140, prompt_once=True)
    assert (found.tokens, found.computed) == (140, 120)  # 80 of 560 characters
    assert "14% of them are prompts computed once" in found.source
    elsewhere = data("hf://o/d@main", pairs=7, tokens=140, prompt_once=True)
    assert elsewhere.computed == 140 and "prompts counted twice" in elsewhere.source


@pytest.mark.parametrize("source", ["hf://o/d@main", "data/pairs.jsonl", "file:///absent.jsonl"])
def test_one_source_elsewhere_makes_the_number_unknown(file: Path, source: str) -> None:
    assert find_data([f"file://{file}", source]) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"pairs\n", "odd.jsonl line 1 is not JSON"),
        (b"\xff\xfe{\x00}\x00", "odd.jsonl line 1 is not JSON"),
        (b"[1]", "the row is not a map"),
    ],
)
def test_a_file_of_no_rows_is_a_problem(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "odd.jsonl").write_bytes(content)
    with pytest.raises(Problem, match=said):
        find_data([f"file://{tmp_path}/odd.jsonl"])


def test_a_byte_order_mark_a_list_and_a_folder_are_counted(tmp_path: Path) -> None:
    row = {"query": "q", "response": "good", "rejected_response": "bad"}
    (tmp_path / "a.jsonl").write_text("\ufeff" + json.dumps(row) + "\n")
    (tmp_path / "b.json").write_text(json.dumps([row, row]))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "train.jsonl").write_text(f"{json.dumps(row)}\n" * 4)
    assert data(*(f"file://{tmp_path}/{name}" for name in ("a.jsonl", "b.json", "c"))).pairs == 7


@pytest.mark.parametrize(
    "line", ['{"messages": 5}', '{"messages": ["a"]}', '{"rejected_messages": ["a"]}']
)
def test_a_row_in_another_format_counts_and_has_no_length(tmp_path: Path, line: str) -> None:
    (tmp_path / "odd.jsonl").write_text(line)
    found = data(f"file://{tmp_path}/odd.jsonl")
    assert (found.pairs, found.tokens) == (1, run_length.TOKENS)
