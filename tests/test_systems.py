"""tests/systems.yaml has a row for each feature of the users' systems, and names what exists."""

import json
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest

from launchers.yaml_file import read_yaml
from scripts.helm import ROOT
from tests.test_readmes import TARGETS, VERBS

FEATURES = {
    **{"E": 16, "S": 7, "R": 6, "N": 7, "V": 5, "Q": 5, "P": 8, "T": 12, "D": 2, "C": 2, "M": 2},
    **{"B": 4, "X": 3, "H": 1, "U": 2, "F": 3, "Z": 19, "W": 14},
}
"""Rows of the inventory by the first letter of their ids; W: needs without a row there."""
SHOWN = {"gpu", "cluster", "slurm", "cpu", "test", "rendered", "page", "out", "no"}
ROWS: list[dict[str, Any]] = read_yaml(ROOT / "tests" / "systems.yaml")
NAMES = [(row["id"], name) for row in ROWS for name in row["by"]]


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "chart" / "values.schema.json").read_text("utf-8"))
    return found


def is_key(path: str) -> bool:
    level: Any = schema()
    for word in path.split("."):
        level = level.get("properties", {}).get(word)
        if level is None:
            return False
    return True


def exists(name: str) -> bool:
    """Return whether a make target, a verb, a key of the values, a file or a test is there."""
    kind, _, rest = name.partition(" ")
    known = {"make": TARGETS.__contains__, "verb": VERBS.__contains__, "key": is_key}
    if rest:
        return kind in known and known[kind](rest)
    path, _, test = name.partition("::")
    file, found = ROOT / path, re.compile(rf"^def {re.escape(test)}\(", re.M)
    return file.exists() and (not test or found.search(file.read_text("utf-8")) is not None)


def test_each_feature_has_one_row() -> None:
    wanted = [f"{letter}{n}" for letter, last in FEATURES.items() for n in range(1, last + 1)]
    assert Counter(row["id"] for row in ROWS) == Counter(wanted)


@pytest.mark.parametrize(("id", "name"), NAMES, ids=[f"{id} {name}" for id, name in NAMES])
def test_what_a_row_names_exists(id: str, name: str) -> None:
    assert exists(name)


def test_a_row_says_how_it_is_shown_and_what_is_open() -> None:
    for row in ROWS:
        assert row.keys() <= {"id", "what", "shown", "by", "why"} and row["by"], row
        assert row["shown"] in SHOWN and len(row["what"]) < 70, row
        assert row.get("why") or row["shown"] != "no", row
        names = " ".join(row["by"])
        ran = row["shown"] in ("cluster", "cpu", "slurm", "test")
        assert not ran or "tests/" in names or "key " in names, row


def test_a_name_of_nothing_is_found() -> None:
    wrong = ["make no-such", "verb no-such", "key recipe.no", "no.md", "tests/test_systems.py::no"]
    assert [name for name in wrong if exists(name)] == []
