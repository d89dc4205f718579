"""The chart's tables of training flags, which ``make flags`` writes."""

import json
from functools import cache
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parents[2] / "chart"
FOLDER = "charts/library/flags"
"""Their folder in the chart."""
SHARED = "shared.json"
"""The part that all tables share; each release adds its own to maps and lists. Helm reads 100 kB as
JSON ten times sooner than as YAML."""
Table = dict[str, Any]


def joined(common: Table, more: Table) -> Table:
    """Return a whole table, as recipe/_flags.tpl joins it.

    >>> joined({"a": [2], "b": {"c": 1}}, {"a": [1], "d": 1})
    {'a': [2, 1], 'b': {'c': 1}, 'd': 1}
    """
    found = {**common, **{name: more[name] for name in more.keys() - common.keys()}}
    for name in more.keys() & common.keys():
        both = common[name], more[name]
        found[name] = joined(*both) if isinstance(both[0], dict) else [*both[0], *both[1]]
    return found


@cache
def table_of(version: str) -> Table:
    """Return the whole table of one release, as the chart has it; not to be changed."""
    files = (CHART / FOLDER / name for name in (SHARED, f"ms-swift-{version}.json"))
    return joined(*(json.loads(file.read_text(encoding="utf-8")) for file in files))


def tables() -> dict[str, Table]:
    """Return the whole table of each release that the chart knows, by version."""
    return {version: table_of(version) for version in releases()}


def releases() -> list[str]:
    """Return the releases that the chart knows."""
    names = sorted(path.stem for path in (CHART / FOLDER).glob("ms-swift-*.json"))
    return [name.removeprefix("ms-swift-") for name in names]
