"""What rows have next to their messages, and what stands in place of rows or of a folder's rows."""

import base64
from typing import Any

from tests.field.case import KEPT, TEXTS, WHOLE, Case
from tests.field.rows import (
    COUNT,
    CSV,
    asked,
    bad,
    both,
    folder_of,
    good,
    lines,
    pair,
    parquet,
    part,
    raw,
    several,
    sides,
    table,
    talk,
    text_of,
    texts,
    turn,
    zipped,
)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
MEDIA, README = "refused dataset-media", "refused dataset-readme"
MAPPED = {"chosen": "response", "rejected": "rejected_response"}
INPUT = {"type": "input_text", "text": "how"}
CONFIG = """---
configs:
- config_name: default
  data_files:
  - split: test
    path: a.jsonl
---
"""
SPLITS = "---\ndataset_info:\n  splits:\n  - name: train\n    num_examples: 8\n---\n"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAJ0lEQVR42u3NsQkAAAjAsP7/tF7hIASyp6lTCQQC"
    "gUAgEAgEgi/BAjLD/C5w/SM9AAAAAElFTkSuQmCC"
)
INFO = "---\ndataset_info:\n  features:\n  - name: messages\n    dtype: string\n---\n"


def columns(file: str = "pairs.jsonl", **more: Any) -> Any:
    return lines(lambda n: pair(n, **more), file)


def spoken(user: str, assistant: str) -> Any:
    """Return the writer of conversations with these roles."""
    return lines(
        lambda n: {
            side: [{**asks, "role": user}, {**answers, "role": assistant}]
            for side, (asks, answers) in sides(n).items()
        }
    )


def readme(text: str) -> Any:
    return raw("README.md", text.encode())


def of_folder(*writers: Any, name: str = "") -> Any:
    return folder_of(several(*writers), name)


def case(what: str, right: str, write: Any, **more: Any) -> Case:
    return Case(id="", what=what, right=right, write=write, **more)


COLUMNS = (
    ("a margin of words", "dataset-margin", {"margin": "high"}),
    ("a column named objects", "dataset-objects", {"objects": ["x"]}),
    ("tools that are no JSON", "dataset-tools", {"tools": "{x"}),
    ("names as tools", "dataset-tools", {"tools": ["clock"]}),
    ("an image without a path", "dataset-image", {"images": ""}),
)
FOLDERS = (
    ("a license next to the rows", KEPT, (lines(pair), raw("LICENSE.txt", b"free"))),
    ("an empty file next to the rows", KEPT, (lines(pair), raw("z.jsonl", b""))),
    ("a folder of images", MEDIA, (lines(pair), raw("1.png", b""), raw("2.png", b""))),
    (
        "splits of two formats",
        "refused dataset-formats-differ",
        (lines(pair, "train.jsonl"), raw("test.csv", CSV.encode())),
    ),
    (
        "a README with a test split alone",
        "refused dataset-no-train",
        (lines(pair, "a.jsonl"), readme(CONFIG)),
    ),
    ("a README without a column", README, (lines(pair), readme(INFO))),
    ("a README with other files", README, (lines(pair), readme(CONFIG.replace("test", "train")))),
    (
        "a README with a file in a hidden folder",
        KEPT,
        (
            folder_of(lines(pair, "a.jsonl"), "__data"),
            readme(CONFIG.replace("test", "train").replace("a.jsonl", "__data/a.jsonl")),
        ),
    ),
    ("a README with the rows", KEPT, (lines(pair), readme(SPLITS))),
    ("a README with other rows", README, (lines(pair, count=7), readme(SPLITS))),
    (
        "a README with fewer splits",
        README,
        (lines(pair, "train.jsonl"), lines(pair, "test.jsonl"), readme(SPLITS)),
    ),
    ("a zip file", KEPT, (raw("pairs.zip", zipped("pairs.jsonl", text_of(pair))),)),
    ("a zip file of one", KEPT, (raw("pairs.jsonl.zip", zipped("pairs.jsonl", text_of(pair))),)),
    ("a tar file", MEDIA, (raw("pairs.tar", bytes(10240)),)),
    ("a file of XML", MEDIA, (raw("a.xml", b"<a/>"),)),
    ("a workbook", "refused dataset-suffix", (raw("pairs.xlsx", b"PK"),)),
    (
        "an empty file of train",
        "refused dataset-empty",
        (raw("train.jsonl", b""), lines(pair, "test.jsonl")),
    ),
)
CASES = (
    *(case(what, f"refused {id}", columns(**more)) for what, id, more in COLUMNS),
    *(case(what, right, of_folder(*writers)) for what, right, writers in FOLDERS),
    case("rows as jsonl and as parquet", TEXTS, of_folder(lines(pair), parquet(texts))),
    case(
        "a folder with a script",
        "refused dataset-script",
        of_folder(lines(pair), raw("mine.py", b""), name="mine"),
    ),
    *(
        case(
            f"two datasets, {name} of two types",
            "refused dataset-types-differ",
            several(columns("a.jsonl", **{name: one}), columns("b.jsonl", **{name: two})),
        )
        for name, one, two in (
            ("margin", 1, 0.5),
            ("rejected_response", "no", [turn("assistant", "no")]),
        )
    ),
    *(
        case(
            f"a folder whose files have {name} of two types: {one}, {two}",
            right,
            of_folder(columns("a.jsonl", **{name: one}), columns("b.jsonl", **{name: two})),
        )
        for name, one, two, right in (
            ("margin", 1, 0.5, "refused dataset-columns-late"),
            ("tags", [], ["x"], "refused dataset-columns-late"),
            ("meta", {"a": 1}, {"b": 1}, "refused dataset-columns-late"),
            ("id", 1, "x", "refused dataset-columns-late"),
            ("id", "x", 1, KEPT),
            ("id", 1, "2", KEPT),
            ("margin", 0.5, 1, KEPT),
        )
    ),
    case(
        "a video of the chosen side alone",
        "refused dataset-sides-differ",
        lines(lambda n: both(n, videos=["a.mp4"])),
    ),
    case("bytes as images", "refused dataset-image", parquet(lambda n: pair(n, image=PNG))),
    case(
        "an image's bytes in a content",
        "refused dataset-image",
        parquet(
            lambda n: pair(
                n,
                messages=[
                    turn("user", [{"type": "image", "image": {"bytes": PNG, "path": "a"}}]),
                    turn("assistant", [part(good(n))]),
                ],
            )
        ),
    ),
    case(
        "an empty prompt", "warned dataset-no-prompt", lines(lambda n: {**texts(n), "prompt": " "})
    ),
    case(
        "thinking next to the answer",
        "warned dataset-reasoning",
        lines(lambda n: pair(n, messages=talk(n, good(n), thinking="so"))),
    ),
    case("a name with brackets", "refused dataset-path", lines(pair, "a [v2].jsonl")),
    case("a pointer of git-lfs", "refused dataset-lfs-pointer", raw("a.jsonl", POINTER)),
    case("a web page", "refused dataset-web-page", raw("a.csv", b"<!DOCTYPE html>\n<html></html>")),
    case(
        "a key that is there twice",
        "refused dataset-json",
        raw("a.jsonl", b'{"query": "q", "query": "z", "rejected_response": "b"}\n' * COUNT),
    ),
    case(
        "an answer whose loss is off",
        "refused dataset-no-answer",
        lines(
            lambda n: {
                "messages": talk(n, good(n), loss=True),
                "rejected_messages": talk(n, bad(n), loss=False),
            }
        ),
    ),
    case("empty answers", "refused dataset-empty-answer", lines(lambda n: texts(n, chosen=" \n"))),
    case(
        "one empty answer of 40",
        "warned dataset-empty-answer",
        lines(lambda n: texts(n, chosen="" if n == 3 else good(n)), count=40),
    ),
    case(
        "parts that ms-swift writes as their name",
        "refused dataset-part",
        lines(lambda n: pair(n, messages=[turn("user", [INPUT]), turn("assistant", good(n))])),
    ),
    case("capital roles", WHOLE, spoken("User", "Assistant")),
    case("the roles human and ai", WHOLE, spoken("human", "ai")),
    case(
        "the role developer",
        WHOLE,
        lines(
            lambda n: {
                side: [turn("developer", "be terse"), *turns] for side, turns in sides(n).items()
            }
        ),
    ),
    case(
        "a csv with the index of pandas",
        TEXTS,
        table(lambda n: f"{n},{asked(n)},{good(n)},{bad(n)}", ",prompt,chosen,rejected\n"),
    ),
    case(
        "a csv with semicolons",
        "refused dataset-csv",
        table(lambda n: f"{asked(n)};{good(n)};{bad(n)}", CSV.replace(",", ";")),
    ),
    case(
        "a csv of decimals",
        "refused dataset-content",
        table(lambda n: f"{asked(n)},{good(n)},.{n}5"),
    ),
    case(
        "names with capitals and a map",
        KEPT,
        lines(lambda n: {"Prompt": asked(n), "Chosen": good(n), "Rejected": bad(n)}),
        columns=MAPPED,
    ),
    case(
        "images in parquet",
        "kept by prompt and answers as turns",
        parquet(
            lambda n: {
                "images": [{"bytes": PNG, "path": f"{n}.png"}],
                "prompt": [turn("user", [{"type": "image"}, part(asked(n))])],
                "chosen": [turn("assistant", [part(good(n))])],
                "rejected": [turn("assistant", [part(bad(n))])],
            }
        ),
    ),
    case(
        "a system prompt in some rows",
        TEXTS,
        lines(lambda n: texts(n, system="be terse" if n % 2 else None)),
    ),
    case(
        "one null answer of 40",
        "warned dataset-no-rejected",
        lines(lambda n: texts(n, rejected=None if n == 3 else bad(n)), count=40),
    ),
    case(
        "transcripts as prompts",
        "warned dataset-markers",
        lines(lambda n: {**texts(n), "prompt": f"\n\nHuman: {asked(n)}\n\nAssistant:"}),
        columns=MAPPED,
    ),
    case(
        "a loss_scale as text",
        "refused dataset-row-form",
        lines(lambda n: pair(n, messages=talk(n, good(n), loss_scale="1"))),
    ),
    case(
        "answers that begin with the prompt",
        "warned dataset-prompt-twice",
        lines(lambda n: texts(n, chosen=f"{asked(n)} {good(n)}", rejected=f"{asked(n)} {bad(n)}")),
    ),
    case(
        "conversations with the chosen answer next to both",
        "refused dataset-no-pairs",
        lines(lambda n: {"messages": talk(n, good(n)), "chosen": good(n), "rejected": bad(n)}),
    ),
)
