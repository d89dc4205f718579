"""`megatron-dpo data` shows what a dataset has, and exits as a run would judge it."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts.data import command
from scripts.data.measure import measure
from tests.scripts.calling import Call
from tests.scripts.test_documents import validate


def document(call: Call, *words: str) -> tuple[int, dict[str, Any]]:
    ended = call("data", *words, "--json")
    validate("data", ended.document)
    return ended.code, ended.document


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


GOOD = "a long and good answer"


def row(n: int, good: str = GOOD, bad: str = "no") -> dict[str, str]:
    return {"prompt": f"question {n}", "chosen": f"{good} {n}", "rejected": f"{bad} {n}"}


FLIPPED = [row(n, good="no", bad=GOOD) for n in range(3)]


def test_a_form_is_named_with_the_map_that_reads_it(tmp_path: Path, call: Call) -> None:
    code, found = document(call, write(tmp_path / "a.jsonl", *map(row, range(20))))
    [seen] = found["datasets"]
    assert code == 0 and (seen["rows"], seen["kept"]) == (20, 20)
    assert seen["form"].startswith("prompt and answers as texts")
    assert seen["columns_map"] == {"chosen": "response", "rejected": "rejected_response"}
    assert found["unit"] == "characters" and "--model" in found["no_tokens"]
    assert found["bias"] > 1.5


def test_duplicates_near_equal_pairs_and_leaks_are_counted(tmp_path: Path, call: Call) -> None:
    near = {"prompt": "near", "chosen": "The same text.", "rejected": "the  same text"}
    rows = [*map(row, range(10)), row(1), {**row(2), "rejected": "another"}, near]
    held_out = write(tmp_path / "b.jsonl", row(4), row(50))
    files = [write(tmp_path / "a.jsonl", *rows), "--held-out", held_out]
    code, found = document(call, *files)
    assert code == 0
    assert found["duplicates"] == 1 and found["repeated_prompts"] == 1
    assert found["near_equal"] == 1 and found["held_out"] == 1


def test_the_gain_of_prompts_once_follows_from_their_share(tmp_path: Path, call: Call) -> None:
    rows = [{"prompt": "p" * 35 + str(n), "chosen": "c" * 10, "rejected": "r" * 18} for n in (1, 2)]
    path = write(tmp_path / "a.jsonl", *rows)
    _, found = document(call, path)
    prompt = found["prompt"]["median"]
    assert found["shared"] == pytest.approx(prompt / (2 * prompt + 28))
    gain = f"up to {1 / (1 - found['shared']):.2f} times as many pairs"
    assert gain in call("data", path).out


def test_what_a_run_refuses_is_shown_with_its_numbers(tmp_path: Path, call: Call) -> None:
    bad = {"messages": [{"role": "user", "content": "q"}], "rejected_response": "b"}
    ended = call("data", write(tmp_path / "a.jsonl", bad, bad))
    said = ("refused: file[0]", "[dataset-no-answer]", "all 2 rows")
    assert ended.code == 1 and all(each in ended.out for each in said)


def test_a_map_of_columns_is_applied(tmp_path: Path, call: Call) -> None:
    path = write(tmp_path / "a.jsonl", *map(row, range(4)))
    words = [path, "--set", "recipe.args.columns.chosen=response"]
    rejected = "recipe.args.columns.rejected=rejected_response"
    code, found = document(call, *words, "--set", rejected)
    assert code == 0 and found["datasets"][0]["form"] == "" and found["pairs"] == 4
    code, found = document(call, *words, "--set", rejected.replace("rejected", "rejcted", 1))
    assert code == 1 and "[dataset-columns-unknown]" in found["refused"][0]


def test_lengths_in_tokens_give_the_share_that_is_cut() -> None:
    from launchers.inputs.row_pairs import Reader

    reader = Reader(columns=["query", "response", "rejected_response"])
    pairs = [
        reader.pair({"query": "a b", "response": "c " * n, "rejected_response": "d"})
        for n in (1, 2, 3, 40)
    ]
    found = measure(pairs, None, lambda texts: [len(text.split()) for text in texts], 10)
    assert (found.unit, found.cut, found.chosen.max) == ("tokens", 0.25, 40)


def sides(n: int) -> dict[str, Any]:
    """Return a pair of conversations; one in five has a system prompt on one side alone."""
    user = {"role": "user", "content": f"question {n}"}
    good, bad = ([user, {"role": "assistant", "content": f"{side} {n}"}] for side in ("yes", "no"))
    system = [{"role": "system", "content": "be terse"}] if n % 5 == 0 else []
    return {"messages": [*system, *good], "rejected_messages": bad}


def near(n: int) -> dict[str, str]:
    """Return a pair with long chosen answers, one in four near-equal."""
    found = row(n, good="well " * 30)
    return {**found, "rejected": found["chosen"].upper()} if n % 4 == 0 else found


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        ([sides(n) for n in range(50)], {}),
        ([row(n, good="word " * (60 if n % 10 < 3 else 5)) for n in range(50)], {"cut": 0.3}),
        ([row(n % 45) for n in range(50)], {"duplicates": 5, "held_out": 2, "repeated_prompts": 0}),
        ([near(n) for n in range(40)], {"near_equal": 10, "longer_chosen": 0.75}),
        ([*map(row, range(40)), *FLIPPED], {"exchanged": 6, "duplicates": 0}),
    ],
    ids=["system on one side", "too long", "duplicates and leaks", "near-equal", "flipped labels"],
)
def test_what_was_planted_is_found(
    rows: list[Any],
    numbers: dict[str, Any],
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def words(texts: Any) -> list[int]:
        return [len(text.split()) for text in texts]

    monkeypatch.setattr(command, "tokenizer", lambda _: (words, ""))
    held_out = write(tmp_path / "b.jsonl", row(4), row(7), row(99))
    files = [write(tmp_path / "a.jsonl", *rows), "--held-out", held_out]
    code, found = document(call, *files, "--set", "recipe.args.max_length=50")
    assert code == 0 and found["pairs"] == len(rows)
    assert {name: found[name] for name in numbers} == pytest.approx(numbers)
    one_sided = "a system prompt that only one side has in 10 of 50"
    assert (one_sided in found["datasets"][0]["faults"]) is (not numbers)


def test_the_page_has_what_the_screen_has(tmp_path: Path, call: Call) -> None:
    path, page = write(tmp_path / "<a>.jsonl", *map(row, range(4))), tmp_path / "page.html"
    ended = call("data", path, "--page", str(page))
    shown = html.unescape(page.read_text())
    assert ended.code == 0 and "accepted" in shown and "&lt;a&gt;.jsonl" in page.read_text()
    for line in ended.out.splitlines()[1:]:
        for part in re.split(r"  +", line.strip()):
            assert part in shown
    other = write(tmp_path / "b.jsonl", {"a": 1})
    assert call("data", other, "--page", str(page)).code == 1
    assert "[dataset-no-pairs]" in page.read_text()
    by_user = ("--set", "recipe.args.external_plugins=a.py")
    assert call("data", path, "--page", str(page), *by_user).code == 0
    assert "not judged</span>" in page.read_text() and "accepted" not in page.read_text()
