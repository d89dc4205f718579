"""Files of rows as users bring them: each is read, or refused with what to write."""

import gzip
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import LaunchError
from launchers.inputs import dataset_check, row_files
from launchers.inputs.dataset_check import Dataset
from launchers.inputs.row_folder import Place
from tests.launchers.inputs.test_dataset_check import GOOD, judge, lines, recipe, refusal
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import needs_training

GZIP = gzip.compress(lines(*[GOOD] * 9).encode(), mtime=0)
"""Without its time: the name of a test is the same in every process."""
RESPONSE = "rejected_response"
TALKS = "rejected_messages"
TALK, WORSE = (
    [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]
    for answer in ("a", "b")
)


def asked(part: dict[str, Any]) -> str:
    """Return a row whose question holds an image."""
    question = [{"type": "text", "text": "which?"}, part]
    answer = {"role": "assistant", "content": "good"}
    return lines({**GOOD, "messages": [{"role": "user", "content": question}, answer]})


@pytest.mark.parametrize(
    "content, id, says",
    [
        (lines(GOOD)[:-2] + ', "score": 1e400}', "dataset-json", "1e400 is too large"),
        (lines(GOOD)[:-2] + ', "margin": -1.5E999}', "dataset-json", "line 1"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "dataset-compressed", "zstd -d"),
        (b"PK\x03\x04" + bytes(20), "dataset-compressed", "unzip"),
        (GZIP[:40], "dataset-compressed", "copy it again"),
        (b"BZh9" + bytes(40), "dataset-compressed", "copy it again"),
        (f"\nnull\n{lines(GOOD)}", "dataset-row", "begins with a row that is null"),
        (f"[null, {lines(GOOD)}]", "dataset-row", "begins with a row that is null"),
        (f"{lines(GOOD)}null\n", "dataset-rows-dropped", "1 of 2 rows (rows 2)"),
        (asked({"type": "image_url", "image_url": {"url": "no.png"}}), "dataset-image", "exist"),
        (asked({"type": "image", "image": "no.png"}), "dataset-image", "exist"),
    ],
)
def test_a_file_is_refused_with_what_to_write(
    tmp_path: Path, content: str | bytes, id: str, says: str
) -> None:
    text = refusal(tmp_path / "a.jsonl", content)
    assert f"[{id}]" in text and says in text


@pytest.mark.parametrize("name", ["chosen", "chosen_response"])
def test_an_answer_in_a_column_of_another_name_is_named(tmp_path: Path, name: str) -> None:
    rows = lines({"instruction": "q", name: "good", "rejected_response": "bad"})
    text = refusal(tmp_path / "a.jsonl", rows)
    assert "[dataset-no-answer]" in text and f"columns: {{{name}: response}}" in text
    judge(tmp_path / "a.jsonl", rows, columns={name: "response"})


@pytest.mark.parametrize(
    "row, columns",
    [
        ({"prompt": "q", "win": "a", "lose": "b"}, {"win": "response", "lose": RESPONSE}),
        ({"query": "q", "Good": "a", "bad": "b"}, {"Good": "response", "bad": RESPONSE}),
        ({"question": "q", "response": "a", "y_neg": "b", "neg_score": 1}, {"y_neg": RESPONSE}),
        (
            {"post": "how is it?", "y_w": "a", "y_l": "b"},
            {"post": "query", "y_w": "response", "y_l": RESPONSE},
        ),
        (
            {"question": "q", "correct_answer": "a", "incorrect_answer": "b"},
            {"correct_answer": "response", "incorrect_answer": RESPONSE},
        ),
        (
            {"问题": "怎么解析文件", "好回答": "a", "坏回答": "b"},
            {"问题": "query", "好回答": "response", "坏回答": RESPONSE},
        ),
        ({"conversations": TALK, "worse_talk": WORSE}, {"worse_talk": TALKS}),
        ({"chosen": TALK, "rejected": "b"}, {"chosen": "messages", "rejected": RESPONSE}),
        (
            {"question": "q", "response_j": "a", "response_k": "b"},
            {"response_j": "response", "response_k": RESPONSE},
        ),
        (
            {"query": "q", "good.text": "a", "bad.text": "b"},
            {"good.text": "response", "bad.text": RESPONSE},
        ),
        (
            {"preferred": TALK, "dispreferred": WORSE},
            {"preferred": "messages", "dispreferred": TALKS},
        ),
        (
            {"prompt": "q", "question": "z", "chosen": "a", "rejected": "b"},
            {"prompt": "query", "chosen": "response", "rejected": RESPONSE},
        ),
    ],
)
def test_columns_whose_names_tell_the_answers_are_named(
    tmp_path: Path, row: dict[str, Any], columns: dict[str, str]
) -> None:
    text = refusal(tmp_path / "a.jsonl", lines(row))
    named = ", ".join(f"{old}: {new}" for old, new in columns.items())
    assert "[dataset-no-pairs]" in text and f"columns: {{{named}}}" in text
    judge(tmp_path / "a.jsonl", lines(row), columns=columns)


@pytest.mark.parametrize(
    "row, says",
    [
        ({"prompt": "q", "completion": "a", "label": True}, "recipe.args.rlhf_type: kto"),
        ({"chosen": "a", "rejected": "b"}, "add the prompt as a column query"),
        ({"prompt": "q", "response_0": "a", "response_1": "b", "better": 1}, "response_0 and resp"),
        ({"id_A": 1, "id_B": 2, "human_ref_A": "a", "human_ref_B": "b"}, "human_ref_A and"),
        ({"model_a": "x", "model_b": "y", "response_a": "long", "response_b": "b"}, "response_a"),
        ({"prompt": "q", "answer_1": "a", "answer_2": "b", "better": "answer_1"}, "answer_1 and"),
        (
            {"prompt": "q", "output_a": "x", "output_b": "y", "win": "a", "lose": "b"},
            "output_a and",
        ),
        ({"prompt": "q", "answer": "a", "negatives": ["b", "c"]}, "for each text of negatives"),
        (
            {"prompt": "q", "chosen": "a", "rejected_1": "b", "rejected_2": "c"},
            "each of rejected_1",
        ),
        ({"prompt": "q", "model_1_text": "a", "model_2_text": "b"}, "model_1_text and"),
        ({"prompt": "q", "output_1": TALK[1], "output_2": WORSE[1]}, "output_1 and"),
        ({"prompt": "q", "r1": "a", "r2": "b", "r3": "c", "ranks": [1, 2, 3]}, "r1, r2 and r3"),
        ({"prompt": "q", "tags": ["x", "y"], "answers": ["long", "b"]}, "the texts in answers"),
        ({"id": 1, "pair": {"prompt": "q", "win": "a", "lose": "b"}}, "fields of pair"),
        ({"messages": [TALK[0], {"role": "assistant", "options": [{}, {}]}]}, "maps in options"),
        ({"question": "q", "best_answer": "a", "incorrect_answers": ["b", "c"]}, "for each text"),
        ({"prompt": "q", "response": "a", "score": 1}, "one answer, response"),
        ({"prompt": "q", "alpha": "a", "omega": "b"}, "or a map of columns"),
        ({"conversation_a": TALK, "conversation_b": WORSE, "winner": "a"}, "conversation_a and"),
        ({"prompt": "q", "answers": [{"answer": "a"}, {"answer": "b"}]}, "the maps in answers"),
        ({"prompt": ["q"], "chosen": ["a"], "rejected": ["b"]}, "first entry a text"),
        (
            {"question": "q", "image": "no.png", "chosen": "a", "rejected": "b"},
            "{chosen: response, rejected: rejected_response}",
        ),
        ({"messages": [{"speaker": "user"}], RESPONSE: "b"}, "each with role and content"),
    ],
)
def test_rows_of_another_form_are_refused_with_what_to_write(
    tmp_path: Path, row: dict[str, Any], says: str
) -> None:
    assert says in refusal(tmp_path / "a.jsonl", lines(row, row))


@pytest.mark.parametrize("part", [{"image_url": {"url": "https://a/b.png"}}, {"image_url": None}])
def test_an_image_elsewhere_or_in_another_column_is_not_looked_at(
    tmp_path: Path, part: dict[str, Any]
) -> None:
    judge(tmp_path / "a.jsonl", asked({"type": "image_url", **part}))


def test_a_folder_that_begins_with_an_empty_file_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"")
    (folder / "b.jsonl").write_text(lines(GOOD))
    with pytest.raises(LaunchError) as no:
        row_files.read(Place("recipe.dataset[0]", folder))
    assert no.value.id == "dataset-empty" and "a.jsonl" in no.value.cause
    (folder / "a.jsonl").rename(folder / "c.jsonl")
    assert [each.total for each in row_files.read(Place("recipe.dataset[0]", folder))] == [1]


@pytest.mark.parametrize(
    "version, tools, id",
    [
        ("4.5.3", "[{}]", "dataset-types-differ"),
        ("4.5.3", [{"a": "2"}], "dataset-types-differ"),
        ("4.5.3", [{"a": 2}], ""),
        ("4.6.0", "[{}]", ""),
    ],
)
def test_tools_have_one_type_in_all_datasets_before_4_6_0(
    tmp_path: Path, version: str, tools: object, id: str
) -> None:
    datasets = []
    for n, each in enumerate(([{"a": 1}], tools)):
        (tmp_path / f"{n}.jsonl").write_text(lines({**GOOD, "tools": each}))
        datasets.append(Dataset(key=f"recipe.dataset[{n}]", path=tmp_path / f"{n}.jsonl"))
    with pytest.raises(LaunchError) if id else nullcontext() as no:
        dataset_check.check(replace(recipe(), swift_version=version), datasets, replicas=None)
    assert not no or no.value.id == id


COLUMNS = """
import json
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from launchers.exits import LaunchError
from launchers.inputs import dataset_check, row_files
from launchers.inputs.dataset_check import Dataset
from launchers.inputs.row_folder import Place

def verdict(table, name="a.parquet"):
    file = Path.cwd() / name
    if name.endswith("parquet"):
        pq.write_table(table, file)
    else:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    try:
        [found] = row_files.read(Place("recipe.dataset[0]", file))
    except LaunchError as error:
        return error.id
    return [found.total, found.rows[0][1] if found.rows else None]

texts = pa.array(["a", "b"])
twice = pa.Table.from_arrays([texts, texts], ["query", "query"])
found = [verdict(twice), verdict(twice, "a.arrow")]
counts = pa.array([[("n", 1)]] * 2, pa.map_(pa.string(), pa.int32()))
found += [verdict(pa.table({"query": texts, "counts": counts}))]
turns = pa.array([[{"role": "user", "content": None}], None])
found += [verdict(pa.table({"messages": turns}))]
found += [verdict(pa.table({"q": texts.dictionary_encode()}))]
found += [verdict(pa.table({"query": texts}).slice(0, 0))]
print(json.dumps(found))
"""


@needs_training
def test_columns_that_datasets_does_not_read_are_refused(tmp_path: Path) -> None:
    assert json.loads(fake_upstream.run(tmp_path, COLUMNS)) == [
        "dataset-columns-twice",
        "dataset-columns-twice",
        "dataset-column-type",
        [2, {"messages": [{"role": "user", "content": None}]}],
        [2, {"q": "a"}],
        "dataset-no-rows",
    ]


LARGE_GROUP = """
import itertools, json, os
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from launchers.inputs.row_folder import Place
from launchers.inputs.rows import columnar

file = Path.cwd() / "a.parquet"
texts = [os.urandom(500).hex() for _ in range(32_000)]
pq.write_table(pa.table({"query": texts}), file, compression="none", use_dictionary=False)
before, seen = pa.total_allocated_bytes(), []
taken = columnar._taken

def counted(batches, *limits):
    batches = iter(batches)
    first = next(batches)
    seen.append(pa.total_allocated_bytes() - before)
    return taken(itertools.chain([first], batches), *limits)

columnar._taken = counted
found, count = columnar.read(Place("d", file), "parquet", 1024**2, 1)
print(json.dumps([len(found) > 500, count, max(seen)]))
"""


@needs_training
def test_of_a_large_row_group_the_read_part_alone_takes_memory(tmp_path: Path) -> None:
    has_rows, count, peak = json.loads(fake_upstream.run(tmp_path, LARGE_GROUP))
    assert has_rows and count == 32_000 and peak < 16 * 1024**2
