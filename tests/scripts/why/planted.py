"""Files of a run, planted for the states of `why`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from launchers.metrics.rows import Row
from scripts.observe.view import View
from scripts.observe.workspace import RunFiles
from tests.scripts.observe.planted import NOW, Object

States = dict[str, tuple[Callable[[], View], str]]
"""Each state by its id: its view, and a fact that its sentence must contain."""


def each_of(build: Callable[[str], View], rows: Mapping[str, tuple[str, str]]) -> States:
    """States that differ in a message: by id, the message and the fact of it."""
    return {id: (partial(build, said), fact) for id, (said, fact) in rows.items()}


def files(**fields: Any) -> RunFiles:
    return RunFiles(**{"run": "dpo", "exists": True, "now": NOW, **fields})


def progress(**fields: Any) -> Object:
    made = {"state": "running", "stage": "train", "attempt": 1, "updated": NOW}
    return {**made, "phases": {"container": NOW - 60, "gang": NOW - 40}, **fields}


def row(age: float) -> Row:
    return Row(step=34, total=107, attempt=1, time=NOW - age, seconds=12.0)
