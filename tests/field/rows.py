"""Rows of pairs of our own, and files of them: the material of ``cases.py``."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

COUNT = 8
"""Rows of a case."""
Row = dict[str, Any]


def asked(n: int) -> str:
    return f"how is the file {n} parsed"


def good(n: int) -> str:
    return f"the reader {n} splits it into lines and keeps each one"


def bad(n: int) -> str:
    return f"no idea about {n}"


def turn(role: str, content: Any, **more: Any) -> Row:
    return {"role": role, "content": content, **more}


def part(text: str) -> Row:
    return {"type": "text", "text": text}


def talk(n: int, answer: Any, *before: Row, **more: Any) -> list[Row]:
    return [*before, turn("user", asked(n)), turn("assistant", answer, **more)]


def shared(n: int, answer: str) -> list[Row]:
    return [{"from": "human", "value": asked(n)}, {"from": "gpt", "value": answer}]


def pair(n: int, **more: Any) -> Row:
    return {"messages": talk(n, good(n)), "rejected_response": bad(n), **more}


def both(n: int, **more: Any) -> Row:
    return {"messages": talk(n, good(n)), "rejected_messages": talk(n, bad(n)), **more}


def sides(n: int, **more: Any) -> Row:
    return {"chosen": talk(n, good(n)), "rejected": talk(n, bad(n)), **more}


def texts(n: int, prompt: str = "prompt", **more: Any) -> Row:
    return {prompt: asked(n), "chosen": good(n), "rejected": bad(n), **more}


def hh(n: int, answer: str) -> str:
    return f"\n\nHuman: {asked(n)}\n\nAssistant: hm\n\nHuman: and then?\n\nAssistant: {answer}"


SYSTEM = turn("system", "be terse")
CALL = {"name": "clock", "arguments": {"zone": "UTC"}}
TOOLS = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}]


def openai(content: str | None) -> Row:
    function = {"name": "clock", "arguments": json.dumps(CALL["arguments"])}
    calls = [{"id": "c", "type": "function", "function": function}]
    return turn("assistant", content, tool_calls=calls)


def tools(n: int, call: Row, role: str = "tool", result: Any = "12:00", **more: Any) -> Row:
    answer = {"tool_call_id": "c"} if "tool_calls" in call else {}
    messages = [turn("user", asked(n)), call, turn(role, result, **answer)]
    messages.append(turn("assistant", good(n)))
    return {"messages": messages, "rejected_response": bad(n), **more}


def lines(
    make: Callable[[int], Any], name: str = "pairs.jsonl", before: str = "", count: int = COUNT
) -> Any:
    text = before + "".join(json.dumps(make(n)) + "\n" for n in range(count))
    return raw(name, text.encode())


CSV = "query,response,rejected_response\n"


def table(row: Callable[[int], str], head: str = CSV) -> Any:
    return raw("pairs.csv", (head + "".join(row(n) + "\n" for n in range(COUNT))).encode())


def whole(make: Callable[[int], Any], name: str = "pairs.json") -> Any:
    return raw(name, json.dumps([make(n) for n in range(COUNT)], indent=1).encode())


def parquet(
    make: Callable[[int], Row], *names: str, name: str = "pairs.parquet", groups: int = 3
) -> Any:
    def write(folder: Path) -> list[Path]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for place, each in enumerate(names or (name,)):
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            rows = [make(n + place * COUNT) for n in range(COUNT)]
            pq.write_table(pa.Table.from_pylist(rows), folder / each, row_group_size=groups)
        return [folder if names else folder / name]

    return write


def raw(name: str, content: bytes) -> Any:
    def write(folder: Path) -> list[Path]:
        (folder / name).write_bytes(content)
        return [folder / name]

    return write


def zipped(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, content)
    return made.getvalue()


def joined(make: Callable[[int], Row], end: str, indent: int | None = None) -> Any:
    """Return the writer of JSON maps with another end than a line's, or over several lines."""
    made = end.join(json.dumps(make(n), indent=indent) for n in range(COUNT))
    return raw("pairs.jsonl", made.encode())


def several(*writers: Any) -> Any:
    def write(folder: Path) -> list[Path]:
        return [path for each in writers for path in each(folder)]

    return write


def folder_of(writer: Any, name: str = "") -> Any:
    def write(folder: Path) -> list[Path]:
        inner = folder / name if name else folder
        inner.mkdir(exist_ok=True)
        writer(inner)
        return [inner]

    return write


def tied(n: int) -> Row:
    return both(n, rejected_messages=talk(n, good(n)))


def mixed(n: int) -> Row:
    return both(n) if n % 2 else pair(n)


def text_of(make: Callable[[int], Row]) -> bytes:
    return "".join(json.dumps(make(n)) + "\n" for n in range(COUNT)).encode()
