"""Read the files of a run, and print one JSON document: a program without imports of the project.

It runs where the workspace is mounted: in this process, or as `python3 -c` in a pod of the run,
whose launcher may be of another version. So it needs the standard library only (Python >= 3.11, as
the launcher does), and it decides nothing: `workspace.py` interprets the document.

`metrics.jsonl` may have a million rows. Each attempt appends its rows, so they are in the order of
(attempt, step), and a row is found by bisection over byte offsets.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

Fields = dict[str, Any]
VERSION = 1
TAIL_BYTES = 256 * 1024
"""Bytes of the end of `metrics.jsonl` that are sent: some 200 rows."""
BLOCK_BYTES = 64 * 1024
"""Longer than any row."""
TEXT_BYTES = 1024 * 1024
"""A longer text is cut."""
PENDING_BYTES = 64 * 1024 * 1024
"""The same for the ranks' digests of a checkpoint: 8 hex digits for each 16 MiB."""
SMALL = ("progress.json", "plan.json", "inputs.json")


def collect(root: Path, run: str) -> Fields:
    """Return the document of one run.

    Args:
        root: folder of the workspace.
        run: name of the run.
    """
    home = root / "runs" / run
    problems: list[str] = []
    document: Fields = {
        "version": VERSION,
        "run": run,
        "now": time.time(),
        "exists": is_folder(home, problems),
        "root": str(root),
        "runs": names(home.parent, problems),
        "problems": problems,
    }
    if document["exists"]:
        tried = attempts(home / "attempts", problems)
        resumes = {each["number"]: each["resume"] for each in tried}
        document |= {
            "files": {name: text(home / name, problems) for name in SMALL},
            "attempts": tried,
            "metrics": metrics(home / "metrics.jsonl", resumes, problems),
            "checkpoints": checkpoints(home / "checkpoints", problems),
            "export": holds((home / "export").is_dir),
            "heartbeat": heartbeat(home, problems),
        }
    return document


def holds(test: Callable[[], bool]) -> bool:
    """Return what a test of a path says; False where a permission is missing."""
    try:
        return test()
    except OSError:
        return False


def is_folder(path: Path, problems: list[str]) -> bool:
    """Return whether a folder exists; False, and a problem, if it cannot be said."""
    try:
        return path.is_dir()
    except OSError as error:
        problems.append(str(error))
        return False


def names(folder: Path, problems: list[str]) -> list[str]:
    """Return the sorted names in a folder; none without it."""
    try:
        return sorted(each.name for each in folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(str(error))
        return []


def text(path: Path, problems: list[str], most: int = TEXT_BYTES) -> str | None:
    """Return a small file's text; None if it does not exist or can't be read."""
    try:
        with path.open("rb") as handle:
            return handle.read(most).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(str(error))
        return None


def parsed(content: str | None) -> Fields:
    """Return the JSON object of a text; empty when it is missing or torn."""
    try:
        found = json.loads(content or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def modified(path: Path) -> float | None:
    """Return a file's time of change; None if it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def heartbeat(home: Path, problems: list[str]) -> float | None:
    """Return when the launcher that leads the run last touched its lock; None without a lock.

    A lock that was taken over is a chain of files, `launchers/storage/lock.py`.
    """
    locks = (name for name in names(home, problems) if name.startswith("run.lock"))
    found = [modified(home / name) for name in locks]
    return max((when for when in found if when is not None), default=None)


def attempts(folder: Path, problems: list[str]) -> list[Fields]:
    """Return the attempts' records, the oldest first."""
    found = []
    for name in names(folder, problems):
        if not name.isdecimal():
            continue
        path = folder / name
        files = names(path, problems)
        records = {
            kind: [
                text(path / file, problems)
                for file in files
                if file.startswith(f"{kind}-") and file.endswith(".json")
            ]
            for kind in ("termination", "preflight")
        }
        start = parsed(text(path / "start.json", problems))
        resume = start.get("resume")
        found.append(
            {
                "number": int(name),
                "resume": resume if isinstance(resume, int) else None,
                "run": str(start.get("run") or ""),
                "terminations": records["termination"],
                "preflights": records["preflight"],
                "files": files,
                "modified": modified(path),
            }
        )
    return sorted(found, key=lambda each: each["number"])


def metrics(path: Path, resumes: Mapping[int, int | None], problems: list[str]) -> Fields | None:
    """Return the end of `metrics.jsonl`, and the rows at which its attempts begin and end.

    Args:
        path: the file.
        resumes: the step that each attempt began from; None for one that never trained.
        problems: errors are added to it.
    """
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL_BYTES))
            lines = handle.read().decode(errors="replace").split("\n")
            lines = lines[1:] if size > TAIL_BYTES else lines
            spans = {
                str(number): span(handle, size, number, next_resume(number, resumes))
                for number in resumes
            }
            return {"tail": [line for line in lines if line], "attempts": spans}
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(str(error))
        return None


def next_resume(number: int, resumes: Mapping[int, int | None]) -> int | None:
    """Return the step from which the next attempt that trained began; None without one.

    >>> next_resume(1, {1: 0, 2: None, 3: 8}), next_resume(3, {3: 8})
    (8, None)
    """
    later = (resumes[each] for each in sorted(resumes) if each > number)
    return next((step for step in later if step is not None), None)


def span(handle: BinaryIO, size: int, attempt: int, kept: int | None) -> Fields:
    """Return the first and last rows of an attempt, and the last that the next attempt kept."""
    begin = offset_of(handle, size, (attempt, -1))
    end = offset_of(handle, size, (attempt + 1, -1))
    keep = None
    if kept is not None:
        keep = last_step(handle, begin, offset_of(handle, size, (attempt, kept + 1)))
    return {
        "first": first_step(handle, begin, end),
        "last": last_step(handle, begin, end),
        "kept": keep,
        "next": kept,
    }


def offset_of(handle: BinaryIO, size: int, wanted: tuple[int, int]) -> int:
    """Return the offset from which all rows are at (attempt, step) `wanted` or after it."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        end, row = next_row(handle, middle, size)
        if row is None or (row["attempt"], row["step"]) >= wanted:
            high = middle
        else:
            low = end
    return low


def next_row(handle: BinaryIO, offset: int, size: int) -> tuple[int, Fields | None]:
    """Return the offset of the end of the first row that begins at an offset or later, and the row.

    A torn line is skipped. The row is None at the end of the file.
    """
    handle.seek(max(0, offset - 1))
    if offset:
        handle.readline()
    while handle.tell() < size:
        row = parsed(handle.readline().decode(errors="replace"))
        if all(isinstance(row.get(name), int) for name in ("attempt", "step")):
            return handle.tell(), row
    return size, None


def first_step(handle: BinaryIO, begin: int, end: int) -> Fields | None:
    """Return the first row of an optimizer step between two offsets, as `last_step`."""
    while begin < end:
        begin, row = next_row(handle, begin, end)
        if row is not None and "seconds" in row:
            return row
    return None


def last_step(handle: BinaryIO, begin: int, end: int) -> Fields | None:
    """Return the last row of an optimizer step between two offsets; None without one.

    Rows of evaluations have no `seconds`.
    """
    handle.seek(max(begin, end - BLOCK_BYTES))
    found = None
    while handle.tell() < end:
        row = parsed(handle.readline().decode(errors="replace"))
        if isinstance(row.get("step"), int) and "seconds" in row:
            found = row
    return found


def checkpoints(folder: Path, problems: list[str]) -> list[Fields]:
    """Return each checkpoint's manifest, and the sizes of the files that it lists."""
    found = []
    for name in names(folder, problems):
        path = folder / name
        if not name.startswith("checkpoint-") or not holds(path.is_dir):
            continue
        manifest = parsed(text(path / "COMPLETE.json", problems))
        listed = manifest.get("files")
        sizes = {}
        for file in listed if isinstance(listed, dict) else ():
            with contextlib.suppress(OSError):
                sizes[file] = (path / file).stat().st_size
        when = modified(path / "COMPLETE.json") or modified(path)
        copies = copied(path, problems)
        found.append(
            {
                **{"name": name, "manifest": manifest, "sizes": sizes, "modified": when},
                **{"copies": copies, "is_damaged": holds((path / "DAMAGED.json").exists)},
            }
        )
    return found


def copied(path: Path, problems: list[str]) -> list[int] | None:
    """Return how many ranks have a part in a checkpoint, and how many of these are copied.

    None for one that no node's disk has, or that is sealed: see `launchers/storage/node_disk.py`.
    """
    ranks = parsed(text(path / "PENDING.json", problems, PENDING_BYTES)).get("ranks")
    parts = {n: each for n, each in enumerate(ranks) if each} if isinstance(ranks, list) else {}
    if not parts:
        return None
    whole = (parsed(text(path / f".digests-{n}", problems, PENDING_BYTES)) for n in parts)
    return [len(parts), sum(own == each for own, each in zip(whole, parts.values(), strict=True))]


def main(words: Sequence[str]) -> None:
    """Print the document of `ROOT RUN`."""
    root, run = words
    json.dump(collect(Path(root), run), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
