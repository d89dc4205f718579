"""The wrong configurations: one YAML file a subject, one entry a mistake that people make.

A file has the entries by the place that refuses them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from launchers.exits import Exit
from launchers.yaml_file import read_yaml
from scripts.values.paths import walk

Where = Literal["schema", "chart", "plan", "launcher"]
"""The part that refuses: Helm by the chart's ``values.schema.json``, or by its templates;
``megatron-dpo plan``; or the launcher in the pod. The first three cost nothing."""
BEFORE = ("schema", "chart", "plan")
"""Refused before anything is submitted."""
FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Case:
    subject: str
    """Name of the file without its ending."""
    case: str
    """Description of the mistake."""
    values: Mapping[str, Any]
    """Laid over the least that renders; ``{workspace}`` in a launcher's case is its folder."""
    id: str
    """The refusal's stable id."""
    where: Where
    also: Sequence[str] = ()
    """Ids of the other refusals of the same round."""
    path: str = ""
    """Key of the values, or name of the variable, that the refusal begins with; an entry with one
    value need not repeat its key."""
    gpu: str = ""
    """The GPU model that ``plan`` counts with."""
    code: Exit | None = None
    """The launcher's exit code; for cases of the launcher only."""
    files: Mapping[str, Any] = field(default_factory=dict)
    """Files below the workspace: text, or a map or list that is written as JSON (lines)."""
    hub: Mapping[str, Any] = field(default_factory=dict)
    """Contents and refusals of the fake hub, see ``pod.py``."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment that the cluster would set, over what the chart renders."""

    @property
    def name(self) -> str:
        return f"{self.subject}: {self.case}"


def read(file: Path) -> list[Case]:
    """Read one subject."""
    found = []
    placed = [(where, entry) for where, group in read_yaml(file).items() for entry in group]
    for where, entry in placed:
        below = walk(entry["values"])
        keys = [path for path, _, value in below if not value or not isinstance(value, dict | list)]
        path = keys[0] if len(keys) == 1 else ""
        case = Case(subject=file.stem, **{"where": where, "path": path, **entry})
        if case.where not in get_args(Where):
            raise ValueError(f"{case.name}: {case.where!r} is none of {get_args(Where)}")
        if (case.code is not None) != (case.where == "launcher"):
            raise ValueError(
                f"{case.name}: a code belongs to each case of the launcher, to no other"
            )
        code = None if case.code is None else Exit[str(entry["code"])]
        found.append(Case(**{**vars(case), "code": code}))
    return found


@cache
def load() -> tuple[Case, ...]:
    """Read all subjects."""
    found = [case for file in sorted(FOLDER.glob("*.yaml")) for case in read(file)]
    for what in (lambda c: c.name, _content):
        seen: dict[str, str] = {}
        for case in found:
            key = what(case)
            if key in seen:
                raise ValueError(f"{case.name} is {seen[key]} once more")
            seen[key] = case.name
    return tuple(found)


def _content(case: Case) -> str:
    return json.dumps([case.values, case.gpu, case.files, case.hub, case.env], sort_keys=True)
