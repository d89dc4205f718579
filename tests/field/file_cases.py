"""Files, folders, maps of columns, and more forms of rows."""

import gzip
import json

from tests.field.case import ANSWERS, KEPT, TEXTS, WHOLE, Case
from tests.field.rows import (
    COUNT,
    asked,
    bad,
    folder_of,
    good,
    hh,
    joined,
    lines,
    pair,
    parquet,
    raw,
    several,
    shared,
    talk,
    text_of,
    texts,
    turn,
)

listed = json.dumps([pair(n) for n in range(COUNT)]).encode()
CASES = (
    Case(
        id="D37",
        what="pairs.jsonl.gz",
        right="refused dataset-suffix",
        write=raw("pairs.jsonl.gz", gzip.compress(text_of(pair))),
    ),
    Case(
        id="D37",
        what="gzip under the name pairs.jsonl",
        right=KEPT,
        write=raw("pairs.jsonl", gzip.compress(text_of(pair))),
    ),
    Case(
        id="D37",
        what="a folder with pairs.jsonl.gz",
        right=KEPT,
        write=folder_of(raw("pairs.jsonl.gz", gzip.compress(text_of(pair)))),
    ),
    Case(
        id="D37",
        what="tsv",
        right="refused dataset-suffix",
        write=raw("pairs.tsv", b"query\tresponse\trejected_response\nq\ta\tb\n"),
    ),
    Case(
        id="D37",
        what="a suffix in capitals",
        right="refused dataset-suffix",
        write=raw("pairs.JSONL", text_of(pair)),
    ),
    Case(id="", what="lines that CR ends", right=KEPT, write=joined(pair, "\r")),
    Case(id="", what="maps over several lines", right=KEPT, write=joined(pair, "\n", 1)),
    Case(id="", what="all maps in one line", right=KEPT, write=joined(pair, "")),
    Case(
        id="",
        what="maps over several lines, one cut by the end of a part",
        right="refused dataset-json-lines",
        write=joined(lambda n: pair(n, more="x" * 50_000), "\n", 1),
    ),
    Case(
        id="",
        what="maps over several lines, a column of two types",
        right="refused dataset-json-lines",
        write=joined(lambda n: pair(n, more=n if n % 2 else "x"), "\n", 1),
    ),
    Case(
        id="",
        what="null in one of many lines",
        right="warned dataset-messages",
        write=lines(lambda n: pair(n) if n != 9 else None, count=5 * COUNT),
    ),
    Case(
        id="",
        what="a JSON list behind a byte-order mark",
        right="refused dataset-json",
        write=raw("pairs.json", "\ufeff".encode() + listed),
    ),
    Case(
        id="",
        what="a JSON list behind an empty line",
        right="refused dataset-json",
        write=raw("pairs.json", b"\n" + listed),
    ),
    Case(
        id="D38",
        what="a folder whose splits are not called train",
        right="refused dataset-no-train",
        write=parquet(
            pair,
            "data/train_prefs-00000-of-00001.parquet",
            "data/test_prefs-00000-of-00001.parquet",
        ),
    ),
    Case(
        id="D38",
        what="a folder with train and test",
        right=KEPT,
        write=folder_of(several(lines(pair, "train.jsonl"), lines(pair, "test.jsonl"))),
    ),
    Case(
        id="D38",
        what="a folder with a test file alone",
        right="refused dataset-no-train",
        write=folder_of(lines(pair, "test.jsonl")),
    ),
    Case(
        id="D39",
        what="a folder of parquet files with other columns",
        right="refused dataset-columns-differ",
        write=parquet(
            lambda n: pair(n) if n < COUNT else pair(n, score=1.0),
            "train-00000.parquet",
            "train-00001.parquet",
        ),
    ),
    Case(
        id="D41",
        what="a repository with subsets",
        right="refused dataset-subset",
        write=folder_of(
            lines(lambda n: {"chosen": hh(n, good(n)), "rejected": hh(n, bad(n))}, "train.jsonl"),
            "hh-rlhf",
        ),
    ),
    Case(
        id="D41",
        what="one subset of it",
        right="kept by transcripts",
        write=folder_of(
            lines(lambda n: {"chosen": hh(n, good(n)), "rejected": hh(n, bad(n))}, "train.jsonl"),
            "helpful-base",
        ),
    ),
    Case(
        id="D42",
        what="one row, part of it held out",
        right="refused dataset-too-few",
        write=lines(pair, count=1),
        args={"split_dataset_ratio": "0.1"},
    ),
    Case(
        id="D45",
        what="think in chosen only",
        right=KEPT,
        write=lines(
            lambda n: {**pair(n), "messages": talk(n, f"<think>\nso\n</think>\n\n{good(n)}")}
        ),
    ),
    Case(
        id="",
        what="TRL's explicit prompt",
        right="kept by prompt and answers as turns",
        write=lines(
            lambda n: {
                "prompt": [turn("user", asked(n))],
                "chosen": talk(n, good(n))[1:],
                "rejected": talk(n, bad(n))[1:],
            }
        ),
    ),
    Case(
        id="",
        what="sharegpt with one turn each",
        right=ANSWERS,
        write=lines(
            lambda n: {
                "conversations": shared(n, "")[:1],
                "chosen": shared(n, good(n))[1],
                "rejected": shared(n, bad(n))[1],
            }
        ),
    ),
    Case(
        id="",
        what="sharegpt conversations",
        right=WHOLE,
        write=lines(lambda n: {"chosen": shared(n, good(n)), "rejected": shared(n, bad(n))}),
    ),
    Case(
        id="",
        what="alpaca with two outputs",
        right="kept by instruction and two outputs",
        write=lines(lambda n: {"instruction": asked(n), "input": "", "output": [good(n), bad(n)]}),
    ),
    Case(id="", what="prompt, chosen, rejected", right=TEXTS, write=lines(texts)),
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
    Case(
        id="",
        what="prompts that differ",
        right="refused dataset-sides-differ",
        write=lines(
            lambda n: {"messages": talk(n, good(n)), "rejected_messages": talk(n + 1, bad(n))}
        ),
    ),
    Case(
        id="",
        what="csv",
        right=KEPT,
        write=raw(
            "pairs.csv",
            b"query,response,rejected_response\n"
            + b"".join(f"{asked(n)},{good(n)},{bad(n)}\n".encode() for n in range(COUNT)),
        ),
    ),
    Case(
        id="",
        what="csv of numbers",
        right="refused dataset-content",
        write=raw(
            "pairs.csv",
            b"query,response,rejected_response\n"
            + b"".join(f"{asked(n)},{good(n)},{n}\n".encode() for n in range(COUNT)),
        ),
    ),
    Case(
        id="",
        what="rows under a key",
        right="refused dataset-wrapped",
        write=raw("pairs.json", json.dumps({"data": [pair(n) for n in range(COUNT)]}).encode()),
    ),
    Case(
        id="",
        what="an unknown role",
        right="refused dataset-role",
        write=lines(
            lambda n: {**pair(n), "messages": [turn("customer", asked(n)), turn("agent", good(n))]}
        ),
    ),
    Case(
        id="",
        what="lines of text",
        right="refused dataset-no-pairs",
        write=raw("pairs.txt", b"one\ntwo\n"),
    ),
    Case(
        id="",
        what="an image that does not exist",
        right="refused dataset-image",
        write=lines(lambda n: pair(n, images=[f"nowhere/{n}.png"])),
    ),
)
