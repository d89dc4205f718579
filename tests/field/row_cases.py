"""Forms of rows; the id is that of the public report, a case without one is of the same kind."""

import json
from functools import partial

from tests.field.case import KEPT, TEXTS, WHOLE, Case, Table, cases
from tests.field.rows import (
    CALL,
    SYSTEM,
    TOOLS,
    Row,
    asked,
    bad,
    both,
    folder_of,
    good,
    hh,
    lines,
    mixed,
    openai,
    pair,
    parquet,
    part,
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

MAPPED = {"chosen": "messages", "rejected": "rejected_messages"}
BYE = turn("user", "bye")
TURN = turn("tool_call", json.dumps(CALL))


def trajectories(n: int, loss: bool, is_direct: bool = False) -> Row:
    call = {**TURN, "loss": True} if loss else TURN
    sides = [
        [call, turn("tool_response", result), turn("assistant", answer)]
        for result, answer in (("12", good(n)), ("13", bad(n)))
    ]
    first, rejected = turn("user", asked(n)), sides[1][2 * is_direct :]
    return {"messages": [first, *sides[0]], "rejected_response": rejected, "tools": TOOLS}


TABLE: Table = {
    ("", "a prompt in ChatML", "warned dataset-markers"): lines(
        lambda n: pair(n, messages=talk(n, good(n) + "<|im_end|>"))
    ),
    ("", "ms-swift's own form", KEPT): lines(pair),
    ("D1", "ultrafeedback_binarized as parquet", WHOLE): parquet(
        lambda n: sides(n, prompt=asked(n), messages=talk(n, good(n)))
    ),
    ("D3", "messages next to chosen and rejected", WHOLE): lines(
        lambda n: sides(n, messages=talk(n, good(n)), score_chosen=8.5)
    ),
    ("D4", "conversations with a text prompt", WHOLE): lines(
        lambda n: sides(n, prompt=asked(n), question=None)
    ),
    ("D4", "a folder that ms-swift has registered", KEPT): folder_of(
        parquet(
            lambda n: sides(n, source="x", prompt=asked(n), question=None),
            "data/train-00000-of-00001.parquet",
        ),
        "orpo-dpo-mix-40k",
    ),
    ("D5", "system, question, chosen, rejected", TEXTS): lines(
        lambda n: texts(n, "question", system="be terse" if n % 2 else "")
    ),
    (
        "D6",
        "system, instruction, input, chosen, rejected",
        "kept by instruction, input and answers",
    ): lines(lambda n: texts(n, "instruction", input="x = 1", system="be terse")),
    ("D7", "rejected answers as a list of texts", "refused dataset-rejected-list"): lines(
        lambda n: pair(n, rejected_response=[bad(n), bad(n + 1)])
    ),
    ("D11", "both sides as JSON text", "refused dataset-no-pairs"): lines(
        lambda n: {k: json.dumps({"messages": v}) for k, v in sides(n).items()}
    ),
    ("D12", "several turns and a system prompt", KEPT): lines(
        lambda n: pair(n, messages=[*talk(n, "hm", SYSTEM), *talk(n + 1, good(n))])
    ),
    ("D14", "a system column next to conversations", WHOLE): lines(
        lambda n: sides(n, system="be terse")
    ),
    ("D14", "tools that only the chosen side has", "refused dataset-sides-differ"): lines(
        lambda n: both(n, tools=json.dumps(TOOLS))
    ),
    ("", "the same tools in another notation, or none as a list", KEPT): lines(
        lambda n: (
            both(n, tools=str(TOOLS), rejected_tools=json.dumps(TOOLS))
            if n % 2
            else both(n, tools="[]")
        )
    ),
    ("D20", "a tool_call without arguments", "refused dataset-tool-call"): lines(
        lambda n: tools(n, turn("tool_call", json.dumps({"name": "clock"})), "tool_response")
    ),
    ("D22", "equal conversations", "refused dataset-same-answers"): lines(tied),
    ("D22", "one tie of 40", "warned dataset-same-answers"): lines(
        lambda n: tied(n) if n == 9 else both(n), count=40
    ),
    ("D23", "6 of 8 rows without a rejected answer", "refused dataset-rows-dropped"): lines(
        lambda n: pair(n, rejected_response=None if n < 6 else bad(n))
    ),
    ("D23", "1 of 40 rows without a rejected answer", "warned dataset-no-rejected"): lines(
        lambda n: pair(n, rejected_response=None if n == 6 else bad(n)), count=40
    ),
    ("D27", "numbers as content", "refused dataset-content"): lines(
        lambda n: pair(n, messages=talk(n, n))
    ),
    ("D29", "messages end with the user", "refused dataset-no-answer"): lines(
        lambda n: pair(n, messages=[*talk(n, good(n)), turn("user", "thanks")])
    ),
    ("D29", "both conversations end with the user", "refused dataset-no-answer"): lines(
        lambda n: {side: [*turns, BYE] for side, turns in both(n).items()}
    ),
    ("D32", "two forms in one file", "refused dataset-rows-dropped"): lines(mixed),
    ("D32", "two forms in two files", "refused dataset-two-forms"): several(
        lines(pair, "a.jsonl"), lines(both, "b.jsonl")
    ),
    ("D34", "jsonl with a byte-order mark", KEPT): lines(pair, before="\ufeff"),
    ("D36", "a JSON list with a column of two types", KEPT): whole(
        lambda n: pair(n, meta=n if n % 2 else "x")
    ),
    ("D36", "CRLF", KEPT): raw("pairs.jsonl", text_of(pair).replace(b"\n", b"\r\n")),
    ("D36", "NaN", KEPT): lines(lambda n: pair(n, score=float("nan"))),
    ("D36", "rejected_response as text and as turns", KEPT): lines(
        lambda n: pair(n, rejected_response=bad(n) if n % 2 else [turn("assistant", bad(n))])
    ),
    ("D36", "parts as content", KEPT): lines(
        lambda n: pair(n, messages=[turn("user", [part(asked(n))]), turn("assistant", good(n))])
    ),
    ("D36", "history", KEPT): lines(
        lambda n: {
            "query": asked(n),
            "response": good(n),
            "rejected_response": bad(n),
            "history": [["hi", "hello"]],
        }
    ),
    ("D36", "JSON text as messages", KEPT): lines(
        lambda n: pair(n, messages=json.dumps(talk(n, good(n))))
    ),
}
USE = {"type": "tool_use", "name": "clock", "input": {}}
RESULT = {"type": "tool_result", "content": [part("12:00")]}
READ = (
    ("a system_prompt", TEXTS, lambda n: texts(n, system_prompt="be terse")),
    (
        "a system prompt as turn and as column",
        WHOLE,
        lambda n: {k: [SYSTEM, *v] for k, v in sides(n).items()} | {"system": "be kind"},
    ),
    (
        "a system prompt in parts",
        "refused dataset-content",
        lambda n: pair(n, messages=talk(n, good(n), turn("system", [part("be terse")]))),
    ),
    (
        "prompts as transcripts",
        "kept by prompts as transcripts",
        lambda n: {**texts(n), "prompt": hh(n, "")},
    ),
    (
        "turns as one text in place of a query",
        "warned dataset-markers",
        lambda n: {"query": json.dumps(talk(n, "")[:1]), "response": "a", "rejected_response": "b"},
    ),
    (
        "turns as one text in place of an answer",
        "warned dataset-markers",
        lambda n: pair(n, rejected_response=json.dumps([turn("assistant", bad(n))])),
    ),
    (
        "two turns of the user in one word",
        "warned dataset-turns-joined",
        lambda n: pair(n, messages=[turn("user", "hi"), *talk(n, good(n))]),
    ),
    (
        "history as maps",
        "refused dataset-row-form",
        lambda n: {
            "query": asked(n),
            "response": good(n),
            "rejected_response": bad(n),
            "history": [{"user": "hi", "assistant": "hello"}],
        },
    ),
    (
        "a rejected turn of gpt",
        "refused dataset-role",
        lambda n: pair(n, rejected_response=[turn("gpt", bad(n))]),
    ),
    (
        "a rejected call that is the chosen one, written otherwise",
        "refused dataset-same-answers",
        lambda n: pair(
            n,
            messages=[turn("user", asked(n)), TURN],
            rejected_response=[turn("tool_call", str(dict(reversed(CALL.items()))))],
        ),
    ),
    (
        "a system prompt in rejected_response",
        "refused dataset-role",
        lambda n: pair(
            n, rejected_response=[turn("system", "be terse"), turn("assistant", bad(n))]
        ),
    ),
    (
        "a rejected call that is no JSON",
        "refused dataset-tool-call",
        lambda n: pair(n, rejected_response=[turn("tool_call", "clock()")]),
    ),
    (
        "arguments that are no JSON",
        "refused dataset-tool-call",
        lambda n: tools(n, turn("tool_call", json.dumps({**CALL, "arguments": "now"}))),
    ),
    (
        "a question right behind a tool's turn",
        "refused dataset-tool-turn",
        lambda n: pair(n, messages=[*tools(n, TURN)["messages"][:3], *talk(n, good(n))]),
    ),
)
CASES = (
    *cases(TABLE),
    *(Case(id="", what=what, right=right, write=lines(make)) for what, right, make in READ),
    *(
        Case(id="", what=what, right=right, right_later=later, write=lines(make))
        for what, right, later, make in (
            (
                "ms-swift's form of a tool_call, as Python writes it",
                KEPT,
                "warned dataset-tool-turn-differs",
                lambda n: tools(
                    n, turn("tool_call", str(CALL)), "tool_response", tools=json.dumps(TOOLS)
                ),
            ),
            (
                "Anthropic's calls",
                "refused dataset-part",
                "warned dataset-tool-turn-differs",
                lambda n: tools(n, turn("assistant", [USE]), "user", result=[RESULT]),
            ),
            (
                "a question behind Anthropic's result",
                "refused dataset-part",
                "refused dataset-tool-turn",
                lambda n: tools(n, turn("assistant", [USE]), "user", result=[RESULT, part("so")]),
            ),
            (
                "tools and calls of whole conversations",
                "refused dataset-content",
                "warned dataset-tool-turn-differs",
                lambda n: {
                    "chosen": tools(n, openai(None))["messages"],
                    "rejected": talk(n, bad(n)),
                    "tools": TOOLS,
                },
            ),
        )
    ),
    Case(
        id="",
        what="sides that differ from the first answer on, all of which are trained on",
        right=KEPT,
        write=lines(
            lambda n: {
                "messages": [*talk(n, "hm"), *talk(n, good(n))],
                "rejected_messages": [*talk(n, "so"), *talk(n, bad(n))],
            }
        ),
        args={"loss_scale": "default"},
    ),
    *(
        Case(
            id="",
            what=f"results of tools of {2 - one} sides, {scale}, calls' loss: {loss}",
            right=KEPT,
            right_later=later,
            args={"loss_scale": scale},
            write=lines(partial(trajectories, loss=loss, is_direct=one)),
        )
        for scale, loss, one, later in (
            ("last_round", False, False, "refused dataset-sides-differ"),
            ("last_round", False, True, "warned dataset-tool-turn-differs"),
            ("last_round", True, True, KEPT),
            ("default", False, False, KEPT),
            ("default", False, True, KEPT),
        )
    ),
    Case(
        id="",
        what="an empty system column next to rejected_messages",
        right="warned dataset-system-empty",
        write=lines(lambda n: both(n, system="")),
    ),
    Case(
        id="D1",
        what="the same, columns that become one twice",
        right="refused dataset-columns-twice",
        write=parquet(lambda n: sides(n, messages=talk(n, good(n)))),
        columns=MAPPED,
    ),
    Case(
        id="D14",
        what="the same with a map of columns",
        right="refused dataset-sides-differ",
        write=lines(lambda n: sides(n, system="be terse")),
        columns=MAPPED,
    ),
    Case(
        id="D16",
        what="tool_calls with an empty text",
        right="refused dataset-tool-calls",
        right_later=KEPT,
        right_latest="warned dataset-tool-turn-differs",
        write=lines(lambda n: tools(n, openai(""), tools=TOOLS)),
    ),
    Case(
        id="D18",
        what="content null with tool_calls",
        right="refused dataset-content",
        right_later=KEPT,
        right_latest="warned dataset-tool-turn-differs",
        write=lines(lambda n: tools(n, openai(None), tools=TOOLS)),
    ),
    Case(
        id="D19",
        what="a tool turn without a call",
        right="refused dataset-tool-turn",
        right_later="warned dataset-tool-turn-differs",
        write=lines(
            lambda n: pair(
                n,
                messages=[
                    turn("user", asked(n)),
                    turn("tool_response", "seen"),
                    *talk(n, good(n))[1:],
                ],
            )
        ),
    ),
)
