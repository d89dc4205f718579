import errno
import json
import logging
import math
import os
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
from launchers.inputs.row_folder import Place
from tests.faults.errno_matrix import Seam
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

PAIR = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}]}
GOOD = {**PAIR, "rejected_response": "bad"}
SAME = {"query": "q", "response": "x", "rejected_response": "x"}
UNANSWERED = {"query": "q", "rejected_response": "b"}
ODD_NAMES = ("two words.jsonl", "données 中文.jsonl", "a'b.jsonl", "-a.jsonl")
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


@pytest.mark.parametrize(
    "name, content, id, says",
    [
        ("a.json", "", "dataset-empty", ""),
        ("a.csv", "", "dataset-empty", ""),
        ("a.parquet", "", "dataset-empty", ""),
        ("a.json", "\n\n", "dataset-no-rows", ""),
        ("a.json", "[]", "dataset-no-rows", ""),
        ("a.json", "  ", "dataset-no-rows", ""),
        ("a.jsonl", lines(GOOD) + "{broken\n", "dataset-json", "line 2"),
        ("a.jsonl", lines(GOOD, GOOD)[:-9], "dataset-json", "line 2"),
        ("a.jsonl", lines(GOOD).encode() + b'\n{"a": "\xff"}\n', "dataset-json", "line 3"),
        ("a.jsonl", lines(GOOD, "text"), "dataset-row", "line 2"),
        ("a.jsonl", "[1, 2]", "dataset-row", "line 1"),
        ("a.jsonl", lines({"prompt": "q", "chosen": "a"}), "dataset-no-pairs", "chosen, prompt;"),
        ("a.jsonl", lines(UNANSWERED, UNANSWERED), "dataset-no-answer", "no chosen answer"),
        ("a.jsonl", lines({}, {}), "dataset-no-pairs", "(none);"),
        ("a.jsonl", lines(SAME, SAME), "dataset-same-answers", ""),
    ],
)
def test_a_file_is_refused_with_its_line_or_columns(
    tmp_path: Path, name: str, content: str | bytes, id: str, says: str
) -> None:
    text = refusal(tmp_path / name, content)
    assert says in text and f"[{id}]" in text


@pytest.mark.parametrize(
    "name, content, change",
    [
        ("a.jsonl", lines(GOOD) + "\n" + lines(GOOD), {}),
        ("a.json", json.dumps([GOOD], indent=2), {}),
        ("a.jsonl", "\ufeff" + lines(GOOD), {}),
        ("a.jsonl", lines({**PAIR, "rejected_messages": GOOD_MESSAGES}), {}),
        ("a.jsonl", lines({"query": "q", "response": "a", "rejected_response": "b"}), {}),
        # what the user makes of the rows is left alone
        ("a.jsonl", lines(PAIR), {"task": "sft"}),
        ("a.jsonl", lines(PAIR), {"rlhf_type": "kto"}),
        ("a.jsonl", lines(PAIR), {"external_plugins": "plugins/a.py"}),
        ("a.jsonl", lines(PAIR), {"custom_dataset_info": "info.json"}),
        *((name, lines(GOOD).replace("\n", "\r\n"), {}) for name in ODD_NAMES),
    ],
)
def test_files_that_pass(tmp_path: Path, name: str, content: str, change: dict[str, Any]) -> None:
    judge(tmp_path / name, content, **change)


def test_a_parquet_file_is_known_by_its_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # without it no row is read
    judge(tmp_path / "a.parquet", b"PAR1" + bytes(100) + b"PAR1")


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
    text = refusal(tmp_path / "a.jsonl", few, **megatron, global_batch_size=64, sample=50)
    assert "50 rows" in text


@pytest.mark.parametrize(
    ("at", "number"), [("/closed", errno.EACCES), ("/closed", errno.EIO), ("", errno.EACCES)]
)
def test_a_closed_folder_is_named_and_one_that_gives_no_answer_is_no_empty_one(
    at: str, number: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`datasets` leaves out the first, such as lost+found of a volume."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "train.jsonl").write_text(lines(GOOD))
    seam = Seam(tmp_path)
    seam.call, seam.path, seam.number, seam.left = "scandir", at, number, math.inf
    with caplog.at_level(logging.WARNING), seam.patched():
        if at and number == errno.EACCES:
            (found,) = row_files.read(Place("recipe.dataset[0]", tmp_path))
            assert found.total == 1 and "closed to this user" in caplog.text
        else:
            with pytest.raises(OSError, match=os.strerror(number)):
                row_files.read(Place("recipe.dataset[0]", tmp_path))


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


LONG = {**GOOD, "rejected_response": "b" * 2000}


@pytest.mark.parametrize(
    ("first", "later", "named"),
    [
        (LONG, {**LONG, "score": 1}, "score"),
        (LONG, {**LONG, "score": None}, "score"),
        ({**LONG, "system": None}, {**LONG, "system": "s"}, "system"),
        (LONG, {**LONG, "messages": [{**PAIR["messages"][0], "weight": 1}]}, "messages.weight"),
    ],
)
def test_a_key_that_the_first_block_lacks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Any, later: Any, named: str
) -> None:
    monkeypatch.setattr(row_files, "BLOCK_BYTES", 20_000)
    text = refusal(tmp_path / "a.jsonl", lines(*[first] * 20, later))
    assert f"has {named} in row 21" in text and "[dataset-columns-late]" in text
    judge(tmp_path / "b.jsonl", lines(*[first] * 20, first))
    judge(tmp_path / "b.jsonl", lines(*[{**LONG, "score": 1}] * 20, LONG))  # then it is null


SPREAD = f"{json.dumps(GOOD, indent=1)}\n"


@pytest.mark.parametrize(
    "content, rows",
    [
        (SPREAD * 2, 2),
        (json.dumps(GOOD) * 2, 2),
        (lines(GOOD) + json.dumps(GOOD) * 2, 3),
        (lines(GOOD, GOOD).replace("\n", "\r"), 2),
        ("\ufeff" + SPREAD, 1),
    ],
)
def test_maps_that_are_not_one_a_line_pass_where_datasets_reads_them(
    tmp_path: Path, content: str, rows: int
) -> None:
    judge(tmp_path / "a.jsonl", content)
    [found] = row_files.read(Place("recipe.dataset[0]", tmp_path / "a.jsonl"))
    assert [number for number, _ in found.rows] == [*range(1, rows + 1)]


@pytest.mark.parametrize("count", [1_000, 4_000])
def test_maps_over_several_lines_are_named_with_the_remedy_where_a_part_cuts_one(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # parts of 327,680 bytes; a text of more than eight is one, and the next begins after 10 MiB
    content = json.dumps({**GOOD, "more": "x" * 1000}, indent=1) + "\n"
    many = content * count
    judge(tmp_path / "a.jsonl", content * 250)
    if count > 2_000:
        judge(tmp_path / "a.jsonl", many)
        monkeypatch.setattr(row_files, "BLOCK_BYTES", 3 * 1024**2)
    text = refusal(tmp_path / "a.jsonl", many)
    assert "[dataset-json-lines]" in text and "jq -c . a.jsonl" in text


def test_reasoning_content_is_a_warning_with_the_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked, answer = PAIR["messages"]
    row = {**GOOD, "messages": [asked, {**answer, "reasoning_content": "because"}]}
    judge(tmp_path / "a.jsonl", lines(row, GOOD, row))
    assert "which ms-swift does not read in 2 of 3 rows (rows 1, 3)" in caplog.text


def test_images_are_looked_at_in_the_pods_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {**GOOD, "images": ["one.png"]}
    assert "[dataset-image]" in refusal(tmp_path / "a.jsonl", lines(row))
    dataset = Dataset(key="recipe.dataset[0]", path=tmp_path / "a.jsonl")
    [found] = dataset_check.judge(recipe(), [dataset])
    assert [fault.id for fault in found.faults] == ["dataset-image-unseen"]
    assert "not looked at" in dataset_check.describe(found)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "one.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    monkeypatch.setenv("ROOT_IMAGE_DIR", str(tmp_path / "images"))
    judge(tmp_path / "a.jsonl", lines(row))


def test_the_limit_of_a_dataset_is_that_of_its_files_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "WINDOW_BYTES", 1000)
    for n in range(10):
        (tmp_path / f"part-{n}.jsonl").write_text(lines(*[LONG] * 20))
    [*files] = row_files.read(Place("recipe.dataset[0]", tmp_path), 100_000)
    read = sum(len(json.dumps(row)) for each in files for _, row in each.rows)
    assert 50_000 < read < 130_000
    assert not any(each.is_whole for each in files)


PARQUET = """
import os, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from launchers.inputs import row_files
from launchers.inputs.row_folder import Place

folder = Path(sys.argv[1]) if sys.argv[1:] else Path.cwd()
image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
for shard in range(8):
    table = pa.table({
        "prompt": [f"p{n}" for n in range(40)],
        "images": pa.array(
            [[{"bytes": os.urandom(100_000), "path": "a.png"}] for _ in range(40)],
            pa.list_(image),
        ),
    })
    pq.write_table(table, folder / f"part-{shard}.parquet", row_group_size=10)
files = row_files.read(Place("recipe.dataset[0]", folder), 1_000_000)
assert [each.total for each in files] == [40] * 8
assert all({*row} == {"prompt"} for each in files for _, row in each.rows)
assert not files[0].is_whole and len(files[0].rows) >= 20
before = pa.default_memory_pool().max_memory()
files = row_files.read(Place("recipe.dataset[0]", folder), 10**9)
assert all(each.is_whole for each in files)
print("read", pa.default_memory_pool().max_memory() == before)
"""


@needs_training
def test_parquet_is_read_without_the_bytes_of_images(tmp_path: Path) -> None:
    assert fake_upstream.run(tmp_path, PARQUET) == "read True"


COLUMNAR = """
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from launchers.inputs import row_files
from launchers.inputs.row_folder import Place

file = Path.cwd() / f"pairs.{kind.partition('-')[0]}"
text = "t" * 50_000  # 500 of them in each of 20 batches: 500 MB
table = pa.table({"query": pa.DictionaryArray.from_arrays([0] * 500, [text])})
texts = table.cast(pa.schema({"query": pa.string()}))
if kind == "parquet":  # 20 KB on the disk
    pq.write_table(pa.concat_tables([texts] * 20), file, row_group_size=500)
else:
    make = pa.ipc.new_stream if kind == "arrow-stream" else pa.ipc.new_file
    with make(file, texts.schema) as writer:
        for _ in range(20):
            writer.write_table(texts)
del texts
[found] = row_files.read(Place("recipe.dataset[0]", file), 10_000_000)
numbers = [number for number, _ in found.rows]
assert (found.total, numbers[0], numbers[-1] > 9500, found.is_whole) == (10_000, 1, True, False)
assert all(row["query"] == text for _, row in found.rows)
print(sum(len(row["query"]) for _, row in found.rows) <= 11_000_000)
"""


@needs_training
@pytest.mark.parametrize("kind", ["parquet", "arrow-stream", "arrow-file"])
def test_rows_of_columns_are_read_up_to_the_limit_in_bytes(tmp_path: Path, kind: str) -> None:
    assert fake_upstream.run(tmp_path, f"kind = {kind!r}{COLUMNAR}") == "True"
