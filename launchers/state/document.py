"""The state of a run as one JSON document: what ``python3 -m launchers state --json`` prints.

All verbs about a run read this document, through a pod or of a mounted workspace. Files may be
missing, torn, or written by something else: that is named in ``torn`` or ``problems``, and the rest
is there. README.md lists the fields.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from launchers.config.workspace import Workspace
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.exits import LaunchError
from launchers.metrics import reader, rows
from launchers.metrics.rows import Row
from launchers.stages.attempt_record import read_end, whole
from launchers.state import json_text, spans
from launchers.storage import checkpoint
from launchers.system import lookup

Fields = dict[str, Any]
SCHEMA = 1
"""Rises when a field is removed or changes its meaning."""
ROWS = 300
"""Newest rows in the document, unless another number is asked for."""
ROW_BYTES = 1024
"""Of the end of ``metrics.jsonl`` that is read, by row: more than most rows have."""
TEXT_BYTES = 1024 * 1024
"""A longer text is cut."""
PENDING_BYTES = 64 * 1024 * 1024
"""The same for the ranks' digests of a checkpoint: 8 hex digits for each 16 MiB."""
_PARTS: Mapping[str, Any] = {"phases": (int, float), "stages": Mapping, "training": object}
"""Objects of progress.json, and the kind of their values."""


class State:
    """Reads a run, and collects what could not be read."""

    def __init__(self, work: Workspace) -> None:
        """Read nothing yet."""
        self.work = work
        self.torn: list[str] = []
        self.problems: list[str] = []
        """Errors of the file system."""
        self.notes: list[str] = []

    def document(self, count: int = ROWS) -> Fields:
        """Return the document with at most ``count`` rows."""
        work = self.work
        found: Fields = {
            "schema": SCHEMA,
            "run": work.run,
            "root": str(work.root),
            "now": time.time(),
            "exists": self.is_folder(work.home),
            "runs": self.names(work.home.parent),
            "torn": self.torn,
        }
        if found["exists"]:
            tried = self.attempts()
            found |= self._metrics(tried, count)
            found |= {
                "progress": self._progress(),
                "plan": self.object(work.plan),
                "inputs": self.object(work.inputs),
                "attempts": tried,
                "checkpoints": self.checkpoints(),
                "export": self.is_folder(work.export),
                "heartbeat": self._heartbeat(),
            }
        return {**found, "problems": [*self.problems, *self.notes]}

    def note(self, error: OSError) -> None:
        """Note an error of the file system, unless it says that nothing is there."""
        if not isinstance(error, lookup.ABSENT):
            self.problems.append(str(error))

    def is_folder(self, path: Path) -> bool:
        """Return whether a folder exists; no, and noted, if it cannot be said."""
        try:
            return S_ISDIR(path.stat().st_mode)
        except OSError as error:
            self.note(error)
            return False

    def modified(self, path: Path) -> float | None:
        """Return a file's time of change (Unix time); None if it is gone, or cannot be said."""
        try:
            return path.stat().st_mtime
        except OSError as error:
            self.note(error)
            return None

    def names(self, folder: Path) -> list[str]:
        """Return the sorted names in a folder; none without it."""
        try:
            return sorted(each.name for each in folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            self.problems.append(str(error))
            return []

    def text(self, path: Path, most: int = TEXT_BYTES) -> str | None:
        """Return a small file's text; None if it does not exist or can't be read."""
        try:
            with path.open("rb") as handle:
                return handle.read(most).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problems.append(str(error))
            return None

    def object(self, path: Path) -> Fields:
        """Return the object in a JSON file; empty, and noted, if it is torn or something else."""
        text = self.text(path)
        if text is None:
            return {}
        found, left_out = json_text.read_object(text)
        if found is None:
            self.torn.append(path.name)
        if left_out:
            self.notes.append(f"{path.name}: {json_text.NOT_FINITE}")
        return found or {}

    def _progress(self) -> Fields:
        """Return progress.json without what has another type than the launcher writes; note it.

        A number that was not finite is null here, and no reason for a note about the type.
        """
        found = self.object(self.work.progress)
        kept = dict(found)
        for name in _PARTS.keys() & found.keys():
            part, kinds = found[name], _PARTS[name]
            given = part if isinstance(part, Mapping) else {}
            kept[name] = {key: each for key, each in given.items() if isinstance(each, kinds)}
            lacks = given.keys() - kept[name]
            if part is not given or any(given[key] is not None for key in lacks):
                self.torn.append("progress.json")
        return kept

    def _heartbeat(self) -> float | None:
        """Return when the launcher that leads the run last touched its lock; None without a lock.

        A lock that was taken over is a chain of files, ``storage/lock.py``.
        """
        lock = self.work.lock
        locks = (name for name in self.names(lock.parent) if name.startswith(lock.name))
        found = [self.modified(lock.with_name(name)) for name in locks]
        return max((when for when in found if when is not None), default=None)

    def attempts(self) -> list[Fields]:
        """Return the attempts' records, the oldest first."""
        tried = [name for name in self.names(self.work.attempts) if name.isdecimal()]
        return [self._attempt(self.work.attempts / name) for name in sorted(tried, key=int)]

    def _attempt(self, folder: Path) -> Fields:
        files = self.names(folder)
        resumed = self.object(folder / checkpoint.START).get("resume")
        return {
            "number": int(folder.name),
            "resumed": whole(resumed),
            "ends": [
                asdict(end)
                for fields in self._records(folder, files, "termination-")
                if (end := read_end(fields)) is not None
            ],
            "failed_checks": [
                each
                for report in self._records(folder, files, "preflight-")
                for each in _failed_checks(report)
            ],
            "logs": [name for name in files if name.endswith(".log")],
            "modified": self.modified(folder),
        }

    def _records(self, folder: Path, files: list[str], kind: str) -> Iterator[Fields]:
        for name in files:
            if name.startswith(kind) and name.endswith(".json"):
                yield self.object(folder / name)

    def _metrics(self, tried: list[Fields], count: int) -> Fields:
        """Return the newest rows and the evaluations among them; add to each attempt its rows."""
        path, lines, found = self.work.metrics, [""], {}
        try:
            with path.open("rb") as handle:
                size = handle.seek(0, os.SEEK_END)
                handle.seek(max(0, size - count * ROW_BYTES))
                lines = handle.read().decode(errors="replace").split("\n")
                lines = lines[size > count * ROW_BYTES :]
                resumes = {each["number"]: each["resumed"] for each in tried}
                found = spans.read(handle, size, resumes)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.problems.append(str(error))
        for each in tried:
            span = found.get(each["number"], spans.Span())
            ends = {"first": span.first, "last": span.last}
            each |= {name: row and rows.document(row) for name, row in ends.items()}
            each |= {"lost_steps": span.lost_steps, "lost_seconds": span.lost_seconds}
        lines = [line for line in lines if line]
        if lines and reader.parse(lines[-1]) is None:
            self.torn.append(path.name)
        newest = reader.newest(lines, Row)[-count:] if count else []
        return {
            "rows": [rows.document(row) for row in newest],
            "evaluations": [evaluations.document(e) for e in reader.newest(lines, Evaluation)],
        }

    def checkpoints(self) -> list[Fields]:
        """Return the checkpoints by step; ``storage/checkpoint.py`` judges which is complete."""
        folder = self.work.checkpoints
        found = [folder / name for name in self.names(folder)]
        saved = [path for path in found if checkpoint.step_of(path) >= 0 and self.is_folder(path)]
        return [self._checkpoint(path) for path in sorted(saved, key=checkpoint.step_of)]

    def _checkpoint(self, path: Path) -> Fields:
        sizes: Mapping[str, int] = {}
        cause = ""
        try:
            with lookup.within(0.0):  # a person waits
                found = checkpoint.inspect(path)
                if isinstance(found, checkpoint.Checkpoint):
                    sizes, _ = checkpoint.sealed_files(path)
                elif found.id == checkpoint.TORN:
                    self.torn.append(f"{path.name}/{checkpoint.COMPLETE}")
                elif found.id not in (checkpoint.UNSEALED, checkpoint.CONDEMNED):
                    cause = f"{path.name}: {found.cause}"
        except LaunchError as error:
            self.problems.append(error.cause)
        parts, copied = self._copies(path)
        return {
            "step": checkpoint.step_of(path),
            "complete": bool(sizes),
            "cause": cause,
            "bytes": sum(sizes.values()),
            "saved_at": self.modified(path / checkpoint.COMPLETE) or self.modified(path),
            "parts": parts,
            "copied": copied,
        }

    def _copies(self, path: Path) -> tuple[int, int]:
        """Return how many ranks have a part in a checkpoint, and how many of these are copied.

        None has for one that no node's disk has, or that is sealed: see ``storage/node_disk.py``.
        """
        pending, _ = json_text.read_object(self.text(path / checkpoint.PENDING, PENDING_BYTES))
        ranks = (pending or {}).get("ranks")
        parts = {n: each for n, each in enumerate(ranks) if each} if isinstance(ranks, list) else {}
        notes = (self.text(checkpoint.rank_note(path, n), PENDING_BYTES) for n in parts)
        own = (json_text.read_object(text)[0] or {} for text in notes)
        return len(parts), sum(a == b for a, b in zip(own, parts.values(), strict=True))


def read(work: Workspace, count: int = ROWS) -> Fields:
    """Return the document of a run, with at most ``count`` of its newest rows."""
    return State(work).document(count)


def _failed_checks(report: Fields) -> Iterator[Fields]:
    findings = report.get("findings")
    rank = report.get("rank")
    for each in findings if isinstance(findings, list) else ():
        if isinstance(each, Mapping) and each.get("state") == "failed":
            yield {
                "rank": whole(rank),
                **{name: str(report.get(name) or "") for name in ("pod", "node")},
                **{name: str(each.get(name) or "") for name in ("check", "seen", "remedy")},
                "device": str(each.get("who") or ""),
            }
