"""Known errors of upstream as data: each entry names an existing test, patch or refusal."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

import launchers
from launchers.upstream.table import PATCHES
from scripts.helm import ROOT

FILE = Path(__file__).with_name("errors.yaml")
ENTRIES: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
KEYS = {"entry", "releases", "before", "why", "after", "open"}
TESTS = ROOT / "tests"


def test_each_entry_says_how_it_was_seen_and_what_closes_it() -> None:
    for entry in ENTRIES:
        assert entry.keys() <= KEYS and entry["entry"], entry
        assert ("open" in entry) != ("after" in entry), entry["entry"]
        assert "open" in entry or ("before" in entry) != ("why" in entry), entry["entry"]
        assert set(entry.get("after", {})) <= {"patch", "refused", "warned", "tests"}
        assert set(entry.get("after", {"tests": []})) & {"refused", "tests"}, entry["entry"]


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """Return the text of the launcher and of the tests, by kind."""
    own = (each for each in launchers.PACKAGE.rglob("*.py"))
    tests = (
        each
        for each in TESTS.rglob("*")
        if each.suffix in (".py", ".yaml") and each != FILE and "golden" not in each.parts
    )
    return {
        "launchers": "\n".join(each.read_text(encoding="utf-8") for each in own),
        "tests": "\n".join(each.read_text(encoding="utf-8") for each in tests),
    }


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each["entry"][:50])
def test_patches_ids_and_tests_exist(entry: dict[str, Any], sources: dict[str, str]) -> None:
    after = entry.get("after", {})
    assert set(after.get("patch", ())) <= {patch.feature for patch in PATCHES}
    for id in (*after.get("refused", ()), *after.get("warned", ())):
        assert f'"{id}"' in sources["launchers"], id
        assert f'"{id}"' in sources["tests"] or f"id: {id}\n" in sources["tests"], id
    for name in (*after.get("tests", ()), *filter(None, [entry.get("before")])):
        path, _, function = name.partition("::")
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if hasattr(node, "name")}, name
