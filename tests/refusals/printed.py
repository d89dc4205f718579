"""Refusals as Helm, ``plan`` and the launcher print them: id, path and wording."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LINE = re.compile(r"(?:- )?(?P<path>.*?): (?P<says>.*) \[(?P<id>[a-z0-9-]+)\]")
_KEY = re.compile(r"(?P<path>[A-Za-z_][\w.-]*(?:\[\d+\])*)(?:: |=)")


@dataclass(frozen=True, kw_only=True)
class Refused:
    id: str
    path: str
    """The key or variable that it begins with; empty where it begins with none."""
    wording: str
    """Its whole text, without what differs from run to run."""


def by_helm(text: str) -> tuple[Refused, ...]:
    """Return the chart's refusals in Helm's error; empty if Helm refuses in its own words."""
    return by_plan(text.partition("the values cannot work:")[2].splitlines())


def by_plan(lines: Sequence[str]) -> tuple[Refused, ...]:
    """Read lines of the form ``path: what is wrong; what to write [id]``."""
    found = [match for line in lines if (match := _LINE.fullmatch(line.strip()))]
    return tuple(
        Refused(id=m["id"], path=m["path"], wording=m[0].removeprefix("- ")) for m in found
    )


def by_launcher(termination: Mapping[str, Any], folder: Path) -> tuple[Refused, ...]:
    """Read a termination message, empty if there is none; the case's folder is left out of it."""
    if not termination:
        return ()
    ids = termination["id"].split(",")
    cause = termination["cause"].replace(str(folder), "{folder}")
    if several := by_plan(cause.split(" | ")):
        return several
    key = _KEY.match(cause)
    path = key["path"] if key else ""
    wording = f"{cause}; {termination['remedy'].replace(str(folder), '{folder}')} [{ids[0]}]"
    return (Refused(id=ids[0], path=path, wording=wording),)
