"""Files, folders, maps of columns, and more forms of rows."""

import gzip
import json

from tests.field.case import ANSWERS, KEPT, TEXTS, WHOLE, Case, Table, cases
from tests.field.rows import (
    COUNT,
    TOOLS,
    asked,
    bad,
    folder_of,
    good,
    hh,
    joined,
    lines,
    openai,
    pair,
    parquet,
    raw,
    several,
    shared,
    table,
    talk,
    text_of,
    texts,
    turn,
)

listed = json.dumps([pair(n) for n in range(COUNT)]).encode()
DEVELOPER = turn("developer", "be terse")
HH = lines(lambda n: {"chosen": hh(n, good(n)), "rejected": hh(n, bad(n))}, "train.jsonl")
TABLE: Table = {
    ("D37", "pairs.jsonl.gz", "refused dataset-suffix"): raw(
        "pairs.jsonl.gz", gzip.compress(text_of(pair))
    ),
    ("D37", "gzip under the name pairs.jsonl", KEPT): raw(
        "pairs.jsonl", gzip.compress(text_of(pair))
    ),
    ("D37", "a folder with pairs.jsonl.gz", KEPT): folder_of(
        raw("pairs.jsonl.gz", gzip.compress(text_of(pair)))
    ),
    ("D37", "tsv", "refused dataset-suffix"): raw(
        "pairs.tsv", b"query\tresponse\trejected_response\nq\ta\tb\n"
    ),
    ("D37", "a suffix in capitals", "refused dataset-suffix"): raw("pairs.JSONL", text_of(pair)),
    ("", "lines that CR ends", KEPT): joined(pair, "\r"),
    ("", "maps over several lines", KEPT): joined(pair, "\n", 1),
    ("", "all maps in one line", KEPT): joined(pair, ""),
    (
        "",
        "maps over several lines, one cut by the end of a part",
        "refused dataset-json-lines",
    ): joined(lambda n: pair(n, more="x" * 50_000), "\n", 1),
    ("", "maps over several lines, a column of two types", "refused dataset-json-lines"): joined(
        lambda n: pair(n, more=n if n % 2 else "x"), "\n", 1
    ),
    ("", "null in one of many lines", "warned dataset-messages"): lines(
        lambda n: pair(n) if n != 9 else None, count=5 * COUNT
    ),
    ("", "a JSON list behind a byte-order mark", "refused dataset-json"): raw(
        "pairs.json", "\ufeff".encode() + listed
    ),
    ("", "a JSON list behind an empty line", "refused dataset-json"): raw(
        "pairs.json", b"\n" + listed
    ),
    ("D38", "a folder whose splits are not called train", "refused dataset-no-train"): parquet(
        pair, "data/train_prefs-00000-of-00001.parquet", "data/test_prefs-00000-of-00001.parquet"
    ),
    ("D38", "a folder with train and test", KEPT): folder_of(
        several(lines(pair, "train.jsonl"), lines(pair, "test.jsonl"))
    ),
    ("D38", "a folder with a test file alone", "refused dataset-no-train"): folder_of(
        lines(pair, "test.jsonl")
    ),
    (
        "D39",
        "a folder of parquet files with other columns",
        "refused dataset-columns-differ",
    ): parquet(
        lambda n: pair(n) if n < COUNT else pair(n, score=1.0),
        "train-00000.parquet",
        "train-00001.parquet",
    ),
    ("D41", "a repository with subsets", "refused dataset-subset"): folder_of(HH, "hh-rlhf"),
    ("D41", "one subset of it", "kept by transcripts"): folder_of(HH, "helpful-base"),
    ("D45", "think in chosen only", KEPT): lines(
        lambda n: pair(n, messages=talk(n, f"<think>\nso\n</think>\n\n{good(n)}"))
    ),
    ("", "TRL's explicit prompt", "kept by prompt and answers as turns"): lines(
        lambda n: {
            "prompt": [turn("user", asked(n))],
            "chosen": talk(n, good(n))[1:],
            "rejected": talk(n, bad(n))[1:],
        }
    ),
    ("", "sharegpt with one turn each", ANSWERS): lines(
        lambda n: {
            "conversations": shared(n, "")[:1],
            "chosen": shared(n, good(n))[1],
            "rejected": shared(n, bad(n))[1],
        }
    ),
    ("", "sharegpt conversations", WHOLE): lines(
        lambda n: {"chosen": shared(n, good(n)), "rejected": shared(n, bad(n))}
    ),
    ("", "alpaca with two outputs", "kept by instruction and two outputs"): lines(
        lambda n: {"instruction": asked(n), "input": "", "output": [good(n), bad(n)]}
    ),
    ("", "prompt, chosen, rejected", TEXTS): lines(texts),
    ("", "prompts that differ", "refused dataset-sides-differ"): lines(
        lambda n: {"messages": talk(n, good(n)), "rejected_messages": talk(n + 1, bad(n))}
    ),
    ("", "csv", KEPT): table(lambda n: f"{asked(n)},{good(n)},{bad(n)}"),
    ("", "csv without a last field", "refused dataset-empty-answer"): table(
        lambda n: f"{asked(n)},{good(n)}"
    ),
    ("", "csv of numbers", "refused dataset-content"): table(lambda n: f"{asked(n)},{good(n)},{n}"),
    ("", "rows under a key", "refused dataset-wrapped"): raw(
        "pairs.json", json.dumps({"data": [pair(n) for n in range(COUNT)]}).encode()
    ),
    ("", "rows under train and test", "refused dataset-wrapped"): raw(
        "pairs.json", json.dumps({"test": [pair(0)], "train": [pair(1)]}).encode()
    ),
    ("", "columns as lists", "refused dataset-by-column"): raw(
        "pairs.json", json.dumps({k: [v, v] for k, v in texts(0).items()}).encode()
    ),
    ("", "columns as pandas writes them", "refused dataset-by-column"): raw(
        "pairs.json", json.dumps({k: {"0": v, "1": v} for k, v in texts(0).items()}).encode()
    ),
    ("", "OpenAI's format of preferences", "kept by input and preferred output"): lines(
        lambda n: {
            "input": {"messages": [DEVELOPER, *talk(n, "")[:1]], "tools": []},
            "preferred_output": talk(n, good(n))[1:],
            "non_preferred_output": talk(n, bad(n))[1:],
        }
    ),
    ("", "answers that are JSON", TEXTS): lines(
        lambda n: texts(n, chosen=json.dumps([{"a": n}]), rejected=json.dumps([{"b": n}]))
    ),
    ("", "answers that differ in white space alone", "warned dataset-space-differs"): lines(
        lambda n: pair(n, rejected_response=f"{good(n)}\n")
    ),
    ("", "two columns that may be the prompt", "refused dataset-prompts"): lines(
        lambda n: {"prompt": "p", "question": asked(n), "response": "a", "rejected_response": "b"}
    ),
    ("", "an unknown role", "refused dataset-role"): lines(
        lambda n: {**pair(n), "messages": [turn("customer", asked(n)), turn("agent", good(n))]}
    ),
    ("", "lines of text", "refused dataset-no-pairs"): raw("pairs.txt", b"one\ntwo\n"),
    ("", "an image that does not exist", "refused dataset-image"): lines(
        lambda n: pair(n, images=[f"nowhere/{n}.png"])
    ),
}
CASES = (
    *cases(TABLE),
    *(
        Case(
            id="",
            what=f"tool_calls in {what}",
            right="refused dataset-tool-calls",
            right_later=f"kept by {form}",
            write=lines(make),
        )
        for what, form, make in (
            (
                "the answer of TRL's explicit prompt",
                "prompt and answers as turns",
                lambda n: {
                    "prompt": talk(n, "")[:1],
                    "chosen": [openai("")],
                    "rejected": talk(n, bad(n))[1:],
                    "tools": TOOLS,
                },
            ),
            (
                "OpenAI's format of preferences",
                "input and preferred output",
                lambda n: {
                    "input": {"messages": talk(n, "")[:1], "tools": TOOLS},
                    "preferred_output": [openai("")],
                    "non_preferred_output": talk(n, bad(n))[1:],
                },
            ),
        )
    ),
    Case(
        id="D42",
        what="one row, part of it held out",
        right="refused dataset-too-few",
        write=lines(pair, count=1),
        args={"split_dataset_ratio": "0.1"},
    ),
    Case(
        id="",
        what="a map of columns",
        right=KEPT,
        write=lines(texts),
        columns={"chosen": "response", "rejected": "rejected_response"},
    ),
    Case(
        id="",
        what="a map of columns with a typo",
        right="refused dataset-columns-unknown",
        write=lines(texts),
        columns={"choosen": "response", "rejected": "rejected_response"},
    ),
)
