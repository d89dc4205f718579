"""Forms of rows; the id is that of the public report, a case without one is of the same kind."""

import json

from tests.field.case import KEPT, TEXTS, WHOLE, Case
from tests.field.rows import (
    CALL,
    SYSTEM,
    TOOLS,
    asked,
    bad,
    folder_of,
    good,
    lines,
    mixed,
    openai,
    pair,
    parquet,
    raw,
    several,
    sides,
    talk,
    text_of,
    texts,
    tied,
    tools,
    turn,
    whole,
)

CASES = (
    Case(
        id="",
        what="a prompt in ChatML",
        right="warned dataset-markers",
        write=lines(lambda n: {**pair(n), "messages": talk(n, good(n) + "<|im_end|>")}),
    ),
    Case(id="", what="ms-swift's own form", right=KEPT, write=lines(pair)),
    Case(
        id="D1",
        what="ultrafeedback_binarized as parquet",
        right=WHOLE,
        write=parquet(lambda n: sides(n, prompt=asked(n), messages=talk(n, good(n)))),
    ),
    Case(
        id="D1",
        what="the same, columns that become one twice",
        right="refused dataset-columns-twice",
        write=parquet(lambda n: sides(n, messages=talk(n, good(n)))),
        columns={"chosen": "messages", "rejected": "rejected_messages"},
    ),
    Case(
        id="D3",
        what="messages next to chosen and rejected",
        right=WHOLE,
        write=lines(lambda n: sides(n, messages=talk(n, good(n)), score_chosen=8.5)),
    ),
    Case(
        id="D4",
        what="conversations with a text prompt",
        right=WHOLE,
        write=lines(lambda n: sides(n, prompt=asked(n), question=None)),
    ),
    Case(
        id="D4",
        what="a folder that ms-swift has registered",
        right=KEPT,
        write=folder_of(
            parquet(
                lambda n: sides(n, source="x", prompt=asked(n), question=None),
                "data/train-00000-of-00001.parquet",
            ),
            "orpo-dpo-mix-40k",
        ),
    ),
    Case(
        id="D5",
        what="system, question, chosen, rejected",
        right=TEXTS,
        write=lines(lambda n: texts(n, "question", system="be terse" if n % 2 else "")),
    ),
    Case(
        id="D6",
        what="system, instruction, input, chosen, rejected",
        right="kept by instruction, input and answers",
        write=lines(lambda n: texts(n, "instruction", input="x = 1", system="be terse")),
    ),
    Case(
        id="D7",
        what="rejected answers as a list of texts",
        right="refused dataset-rejected-list",
        write=lines(lambda n: {**pair(n), "rejected_response": [bad(n), bad(n + 1)]}),
    ),
    Case(
        id="D11",
        what="both sides as JSON text",
        right="refused dataset-no-pairs",
        write=lines(lambda n: {k: json.dumps({"messages": v}) for k, v in sides(n).items()}),
    ),
    Case(
        id="D12",
        what="several turns and a system prompt",
        right=KEPT,
        write=lines(
            lambda n: {
                "messages": [*talk(n, "hm", SYSTEM), *talk(n + 1, good(n))],
                "rejected_response": bad(n),
            }
        ),
    ),
    Case(
        id="D14",
        what="a system column next to conversations",
        right=WHOLE,
        write=lines(lambda n: sides(n, system="be terse")),
    ),
    Case(
        id="D14",
        what="the same with a map of columns",
        right="refused dataset-sides-differ",
        write=lines(lambda n: sides(n, system="be terse")),
        columns={"chosen": "messages", "rejected": "rejected_messages"},
    ),
    Case(
        id="D14",
        what="tools that only the chosen side has",
        right="refused dataset-sides-differ",
        write=lines(
            lambda n: {
                "messages": talk(n, good(n)),
                "rejected_messages": talk(n, bad(n)),
                "tools": json.dumps(TOOLS),
            }
        ),
    ),
    Case(
        id="D16",
        what="tool_calls with an empty text",
        right="refused dataset-tool-calls",
        right_later=KEPT,
        write=lines(lambda n: tools(n, openai(""), tools=TOOLS)),
    ),
    Case(
        id="D18",
        what="content null with tool_calls",
        right="refused dataset-content",
        right_later=KEPT,
        write=lines(lambda n: tools(n, openai(None), tools=TOOLS)),
    ),
    Case(
        id="D19",
        what="a tool turn without a call",
        right="refused dataset-tool-turn",
        right_later="warned dataset-tool-turn-differs",
        write=lines(
            lambda n: {
                "messages": [
                    turn("user", asked(n)),
                    turn("tool", "seen"),
                    turn("assistant", good(n)),
                ],
                "rejected_response": bad(n),
            }
        ),
    ),
    Case(
        id="D20",
        what="a tool_call without arguments",
        right="refused dataset-tool-call",
        write=lines(
            lambda n: tools(n, turn("tool_call", json.dumps({"name": "clock"})), "tool_response")
        ),
    ),
    Case(
        id="",
        what="ms-swift's form of a tool_call",
        right=KEPT,
        write=lines(
            lambda n: tools(
                n, turn("tool_call", json.dumps(CALL)), "tool_response", tools=json.dumps(TOOLS)
            )
        ),
    ),
    Case(
        id="D22",
        what="equal conversations",
        right="refused dataset-same-answers",
        write=lines(tied),
    ),
    Case(
        id="D22",
        what="one tie of 40",
        right="warned dataset-same-answers",
        write=lines(
            lambda n: (
                tied(n)
                if n == 9
                else {"messages": talk(n, good(n)), "rejected_messages": talk(n, bad(n))}
            ),
            count=40,
        ),
    ),
    Case(
        id="D23",
        what="6 of 8 rows without a rejected answer",
        right="refused dataset-rows-dropped",
        write=lines(lambda n: {**pair(n), "rejected_response": None if n < 6 else bad(n)}),
    ),
    Case(
        id="D23",
        what="1 of 40 rows without a rejected answer",
        right="warned dataset-no-rejected",
        write=lines(
            lambda n: {**pair(n), "rejected_response": None if n == 6 else bad(n)}, count=40
        ),
    ),
    Case(
        id="D27",
        what="numbers as content",
        right="refused dataset-content",
        write=lines(lambda n: {**pair(n), "messages": talk(n, n)}),
    ),
    Case(
        id="D29",
        what="messages end with the user",
        right="refused dataset-no-answer",
        write=lines(lambda n: {**pair(n), "messages": [*talk(n, good(n)), turn("user", "thanks")]}),
    ),
    Case(
        id="D29",
        what="both conversations end with the user",
        right="refused dataset-no-answer",
        write=lines(
            lambda n: {
                "messages": [*talk(n, good(n)), turn("user", "bye")],
                "rejected_messages": [*talk(n, bad(n)), turn("user", "bye")],
            }
        ),
    ),
    Case(
        id="D32",
        what="two forms in one file",
        right="refused dataset-rows-dropped",
        write=lines(mixed),
    ),
    Case(
        id="D32",
        what="two forms in two files",
        right="refused dataset-two-forms",
        write=several(
            lines(pair, "a.jsonl"),
            lines(
                lambda n: {"messages": talk(n, good(n)), "rejected_messages": talk(n, bad(n))},
                "b.jsonl",
            ),
        ),
    ),
    Case(
        id="D34",
        what="jsonl with a byte-order mark",
        right=KEPT,
        write=lines(pair, before="\ufeff"),
    ),
    Case(
        id="D36",
        what="a JSON list with a column of two types",
        right=KEPT,
        write=whole(lambda n: pair(n, meta=n if n % 2 else "x")),
    ),
    Case(
        id="D36",
        what="CRLF",
        right=KEPT,
        write=raw("pairs.jsonl", text_of(pair).replace(b"\n", b"\r\n")),
    ),
    Case(id="D36", what="NaN", right=KEPT, write=lines(lambda n: pair(n, score=float("nan")))),
    Case(
        id="D36",
        what="rejected_response as text and as turns",
        right=KEPT,
        write=lines(
            lambda n: (
                pair(n) if n % 2 else {**pair(n), "rejected_response": [turn("assistant", bad(n))]}
            )
        ),
    ),
    Case(
        id="D36",
        what="parts as content",
        right=KEPT,
        write=lines(
            lambda n: {
                "messages": [
                    turn("user", [{"type": "text", "text": asked(n)}]),
                    turn("assistant", good(n)),
                ],
                "rejected_response": bad(n),
            }
        ),
    ),
    Case(
        id="D36",
        what="history",
        right=KEPT,
        write=lines(
            lambda n: {
                "query": asked(n),
                "response": good(n),
                "rejected_response": bad(n),
                "history": [["hi", "hello"]],
            }
        ),
    ),
    Case(
        id="D36",
        what="JSON text as messages",
        right=KEPT,
        write=lines(lambda n: {**pair(n), "messages": json.dumps(talk(n, good(n)))}),
    ),
)
