from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launchers.config.recipe import Recipe, parse
from launchers.exits import Exit, LaunchError
from launchers.inputs import dataset_check, row_files
from launchers.inputs.dataset_check import Dataset

PAIR = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}]}
GOOD = {**PAIR, "rejected_response": "bad"}
GOOD_MESSAGES = [PAIR["messages"][0], {"role": "assistant", "content": "bad"}]


def recipe(
    backend: str = "transformers", task: str = "rlhf", dropped: float = 0.05, **args: Any
) -> Recipe:
    base = {"backend": backend, "task": task, "model": "hf://o/m@v", "dataset": ["hf://o/d@v"]}
    return parse({**base, "maxDroppedRows": dropped, "args": args})


def judge(path: Path, content: str | bytes, replicas: int | None = None, **change: Any) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    sample = change.pop("sample", None)
    dataset = Dataset(key="recipe.dataset[0]", path=path, sample=sample)
    dataset_check.check(recipe(**change), [dataset], replicas=replicas)


def refusal(path: Path, content: str | bytes, **change: Any) -> str:
    with pytest.raises(LaunchError) as no:
        judge(path, content, **change)
    assert no.value.code == Exit.DATA
    assert str(no.value).startswith("recipe.dataset")
    return f"{no.value} [{no.value.id}]"


def lines(*given: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in given)


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.parquet"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    assert "[dataset-empty]" in refusal(tmp_path / name, "")


@pytest.mark.parametrize("content", ["\n\n", "[]", "  "])
def test_a_file_without_rows_is_refused(tmp_path: Path, content: str) -> None:
    assert "[dataset-no-rows]" in refusal(tmp_path / "a.json", content)


@pytest.mark.parametrize(
    "content, line, id",
    [
        (lines(GOOD) + "{broken\n", 2, "dataset-json"),
        (lines(GOOD, GOOD)[:-9], 2, "dataset-json"),
        (lines(GOOD).encode() + b'\n{"a": "\xff"}\n', 3, "dataset-json"),
        (lines(GOOD, "text"), 2, "dataset-row"),
        ("[1, 2]", 1, "dataset-row"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, content: str | bytes, line: int, id: str) -> None:
    text = refusal(tmp_path / "a.jsonl", content)
    assert f"line {line}" in text and f"[{id}]" in text


def test_the_three_ways_to_write_rows_pass(tmp_path: Path) -> None:
    judge(tmp_path / "a.jsonl", lines(GOOD) + "\n" + lines(GOOD))
    judge(tmp_path / "a.json", json.dumps([GOOD], indent=2))
    judge(tmp_path / "a.jsonl", "\ufeff" + lines(GOOD))


def test_a_parquet_file_is_known_by_its_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # without it no row is read
    judge(tmp_path / "a.parquet", b"PAR1" + bytes(100) + b"PAR1")


@pytest.mark.parametrize(
    "row, seen, id",
    [
        ({"prompt": "q", "chosen": "a"}, "chosen, prompt;", "dataset-no-pairs"),
        ({"query": "q", "rejected_response": "b"}, "no chosen answer", "dataset-no-answer"),
        ({}, "(none);", "dataset-no-pairs"),
        ({"query": "q", "response": "x", "rejected_response": "x"}, "", "dataset-same-answers"),
    ],
)
def test_rows_that_are_no_pairs_are_refused(
    tmp_path: Path, row: object, seen: str, id: str
) -> None:
    text = refusal(tmp_path / "a.jsonl", lines(row, row))
    assert seen in text and f"[{id}]" in text


@pytest.mark.parametrize(
    "change",
    [
        {"task": "sft"},
        {"rlhf_type": "kto"},
        {"external_plugins": "plugins/a.py"},
        {"custom_dataset_info": "info.json"},
    ],
)
def test_what_the_user_makes_of_the_rows_is_left_alone(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    judge(tmp_path / "a.jsonl", lines(PAIR), **change)


@pytest.mark.parametrize(
    "row",
    [
        {**PAIR, "rejected_messages": GOOD_MESSAGES},
        {"query": "q", "response": "a", "rejected_response": "b"},
    ],
)
def test_pairs_of_every_form_pass(tmp_path: Path, row: object) -> None:
    judge(tmp_path / "a.jsonl", lines(row))


def test_more_dropped_rows_than_the_limit_are_refused(tmp_path: Path) -> None:
    half = lines({**PAIR, "rejected_response": "good"}, GOOD)
    text = refusal(tmp_path / "a.jsonl", half)
    assert "1 of 2 rows (rows 1)" in text and "[dataset-rows-dropped]" in text
    judge(tmp_path / "a.jsonl", half, dropped=0.5)


def test_rows_that_make_no_batch_are_refused(tmp_path: Path) -> None:
    few = lines(*[GOOD] * 100)
    megatron: dict[str, Any] = {"backend": "megatron", "replicas": 8}
    text = refusal(tmp_path / "a.jsonl", few, **megatron, global_batch_size=128)
    assert "100 rows x num_train_epochs 1 " in text and "[dataset-no-batch]" in text
    judge(tmp_path / "a.jsonl", few, **megatron, global_batch_size=64)
    judge(tmp_path / "a.jsonl", few, **megatron, global_batch_size=128, num_train_epochs=2)
    judge(tmp_path / "a.jsonl", few, **megatron, global_batch_size=128, train_iters=5)
    judge(tmp_path / "a.jsonl", few, backend="megatron", global_batch_size=128)
    judge(tmp_path / "a.jsonl", few, **megatron, global_batch_size=128, sample=1000)
    assert "50 rows" in refusal(
        tmp_path / "a.jsonl", few, **megatron, global_batch_size=64, sample=50
    )


def test_a_folder_and_an_unknown_number_of_rows_pass(tmp_path: Path) -> None:
    (tmp_path / "rows.hdf5").write_bytes(b"rows")
    dataset = Dataset(key="recipe.dataset[0]", path=tmp_path)
    dataset_check.check(recipe("megatron", global_batch_size=4096), [dataset], replicas=8)


def test_a_large_file_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "MAX_READ_BYTES", 1000)
    judge(tmp_path / "a.jsonl", lines(*[GOOD] * 50))
    text = refusal(tmp_path / "a.jsonl", lines(*[GOOD] * 50) + "{broken")
    assert "behind byte" in text and "[dataset-json]" in text
    assert "[dataset-no-pairs]" in refusal(tmp_path / "a.jsonl", lines(*[PAIR] * 50))
    judge(tmp_path / "a.json", json.dumps([GOOD] * 50))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    content=st.lists(
        st.dictionaries(
            st.sampled_from(["messages", "rejected_response", "response", "a"]),
            st.none() | st.text(max_size=2) | st.lists(st.none() | st.just({"content": "x"})),
        ),
        max_size=3,
    )
)
def test_no_rows_break_the_reader(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    path.write_text(lines(*content))
    try:
        dataset_check.check(recipe(), [Dataset(key="recipe.dataset[0]", path=path)], replicas=None)
    except LaunchError as error:
        assert error.code == Exit.DATA


@pytest.mark.parametrize("given", ["chosen:messages", ["chosen:messages", "a:b"]])
def test_columns_that_are_no_map_are_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(LaunchError) as no:
        judge(tmp_path / "a.jsonl", lines(GOOD), columns=given)
    assert (no.value.code, no.value.id) == (Exit.CONFIG, "columns-form")


def test_a_part_of_the_rows_with_a_fault_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tie = {**PAIR, "rejected_messages": PAIR["messages"]}
    judge(tmp_path / "a.jsonl", lines(tie, *[{**PAIR, "rejected_messages": GOOD_MESSAGES}] * 9))
    assert "equal sides in 1 of 10 rows (rows 1)" in caplog.text
