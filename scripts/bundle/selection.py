"""Files of a run for a bundle: those of a list; each other one is reported by name."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from launchers.state import files

Treatment = Literal["data", "lines", "log"]
"""JSON, lines of JSON, or text of any kind."""
ATTEMPTS = 5
"""Newest attempts whose logs go in, with the first one."""
MAX_JSON = 4 * 2**20
"""Bytes above which a JSON file is left out."""
_TAKEN: tuple[tuple[str, Treatment], ...] = (
    (r"(?:progress|plan|inputs)\.json", "data"),
    (r"metrics\.jsonl", "lines"),
    (r"attempts/\d+/(?:start|packing)\.json", "data"),
    (r"attempts/\d+/(?:termination|preflight|phases)-\d+\.json", "data"),
    (r"attempts/\d+/.*\.(?:log|txt)", "log"),
    (r"checkpoints/(?:checkpoint-\d+/)?args\.json", "data"),
    (r"checkpoints/checkpoint-\d+/(?:COMPLETE|features)\.json", "data"),
    (r"checkpoints/logging\.jsonl", "lines"),
    (r"export/\.complete\.json", "data"),
)
FILES = tuple(pattern for pattern, _ in _TAKEN)
"""Names of the files that go in."""
_REASONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r".*\.(?:safetensors|bin|pt|pth|distcp|metadata)|.*/iter_\d+/.*", "weights or state"),
        (r".*dataset.*|.*\.(?:parquet|arrow)|.*not-finite.*", "rows of the data"),
        (r".*tokeni[sz]er.*|.*\.jinja|.*vocab.*|.*merges\.txt", "part of the model"),
        (r".*\.png|.*tfevents.*", "drawn from the metrics"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file of a run."""

    path: Path
    name: str
    """Relative to the run's folder."""
    size: int
    treatment: Treatment | None = None
    """None if it is left out."""
    reason: str = ""
    """The reason if it is left out."""


def entries(home: Path) -> Iterator[Entry]:
    """Yield all files of a run's folder, and folders that cannot be listed; no link is followed.

    Raises:
        OSError: the run's folder cannot be listed.
    """
    found = dict(files.walk(home))
    newest = _newest(found)
    for name, status in found.items():
        path = home / name
        if isinstance(status, OSError):
            yield Entry(path=path, name=name, size=0, reason=f"not readable ({status.strerror})")
        elif not S_ISREG(status.st_mode):
            yield Entry(path=path, name=name, size=0, reason="not a regular file")
        else:
            yield _entry(path, name, status.st_size, newest)


def _entry(path: Path, name: str, size: int, newest: frozenset[str]) -> Entry:
    treatment = next((how for pattern, how in _TAKEN if re.fullmatch(pattern, name)), None)
    if treatment is None:
        found = (reason for pattern, reason in _REASONS if pattern.fullmatch(name))
        return Entry(path=path, name=name, size=size, reason=next(found, "not needed"))
    attempt = re.match(r"attempts/(\d+)/", name)
    if treatment == "log" and attempt and attempt[1] not in newest:
        return Entry(path=path, name=name, size=size, reason="log of an older attempt")
    if treatment == "data" and size > MAX_JSON:
        return Entry(path=path, name=name, size=size, reason="too large")
    return Entry(path=path, name=name, size=size, treatment=treatment)


def _newest(names: Iterable[str]) -> frozenset[str]:
    """Return the names of the attempts whose logs go in."""
    found = {match[1] for match in map(re.compile(r"attempts/(\d+)(?:/|$)").match, names) if match}
    numbers = sorted(found, key=int)
    return frozenset([*numbers[:1], *numbers[-ATTEMPTS:]])
