"""A part of a log, or of its lines with a pattern.

A part is bounded, since a command in a pod has a time limit, and its output is held in memory or in
a pod's log.
"""

import json
import re
import time
from collections import deque
from pathlib import Path
from typing import Any, BinaryIO

Fields = dict[str, Any]
BLOCK_BYTES = 64 * 1024
LINE_BYTES = 1024 * 1024
"""A longer line is read in pieces."""


def read(request: Fields) -> tuple[Fields, bytes]:
    """Return what the part is, and the part.

    Args:
        request: `path`; `offset` to begin at, or `tail`, a number of last lines; `pattern` of the
            lines or null; `limit` in bytes; `seconds`; `last`: of more than the limit the end, not
            the begin.

    Returns:
        `next`: the offset to continue from, null at the end; `omitted`: bytes that were left out in
        favour of later ones.
    """
    with Path(request["path"]).open("rb") as log:
        size = log.seek(0, 2)
        tail = request["tail"]
        begin = request["offset"] if tail is None else tail_offset(log, size, tail)
        if request["pattern"] is None:
            return plain(log, size, begin, request)
        return matching(log, size, begin, request)


def plain(log: BinaryIO, size: int, begin: int, request: Fields) -> tuple[Fields, bytes]:
    """Return a part of all lines."""
    at, limit = begin, request["limit"]
    if request["last"] and size - begin > limit:
        log.seek(size - limit - 1)
        log.readline()
        at = log.tell()
    log.seek(at)
    found = log.read(min(limit, size - at))
    end = at + len(found)
    return {"next": end if end < size else None, "omitted": at - begin}, found


def matching(log: BinaryIO, size: int, at: int, request: Fields) -> tuple[Fields, bytes]:
    """Return a part of the lines with a pattern."""
    pattern = re.compile(request["pattern"])
    until = time.monotonic() + request["seconds"]
    kept: deque[bytes] = deque()
    held = omitted = 0
    log.seek(at)
    while at < size and time.monotonic() < until:
        if held >= request["limit"] and not request["last"]:
            break
        line = log.readline(min(LINE_BYTES, size - at))
        at += len(line)
        if pattern.search(line.decode(errors="replace").rstrip("\r\n")):
            kept.append(line)
            held += len(line)
        while held > request["limit"] and request["last"]:
            left_out = len(kept.popleft())
            held, omitted = held - left_out, omitted + left_out
    return {"next": at if at < size else None, "omitted": omitted}, b"".join(kept)


def tail_offset(log: BinaryIO, size: int, count: int) -> int:
    """Return the offset of the last lines; the last one may have no end."""
    end, left = size, count
    while end > 0 and left > 0:
        begin = max(0, end - BLOCK_BYTES)
        log.seek(begin)
        block = log.read(end - begin)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            if begin + at == size - 1:
                continue  # the end of the last line
            left -= 1
            if left == 0:
                return begin + at + 1
        end = begin
    return size if count == 0 else 0


def answer(request: Fields) -> bytes:
    """Return one line of JSON about the part, then the part that a request asks for."""
    about, found = read(request)
    return json.dumps(about).encode() + b"\n" + found
