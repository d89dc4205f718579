"""Known errors of upstream as data: each entry names an existing test, patch or refusal."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import launchers
from launchers.upstream.table import PATCHES
from launchers.yaml_file import read_yaml
from scripts.helm import ROOT

FILE = Path(__file__).with_name("errors.yaml")
ENTRIES: list[dict[str, Any]] = read_yaml(FILE)
KEYS = {"entry", "part", "releases", "before", "why", "seen", "after", "open"}
TESTS = ROOT / "tests"


def test_each_entry_says_how_it_was_seen_and_what_closes_it() -> None:
    for entry in ENTRIES:
        assert entry.keys() <= KEYS and entry["entry"], entry
        assert ("open" in entry) != ("after" in entry), entry["entry"]
        assert "open" in entry or ("before" in entry) != ("why" in entry), entry["entry"]
        assert entry.get("part", "issue") == "issue", entry["entry"]
        assert {"run", "before"} <= set(entry.get("seen", {"run": 1, "before": 1})), entry["entry"]
        assert set(entry.get("after", {})) <= {"patch", "refused", "warned", "tests"}
        assert set(entry.get("after", {"tests": []})) & {"refused", "tests"}, entry["entry"]


def test_the_modules_that_show_an_entry_exist() -> None:
    runs = [entry["seen"]["run"] for entry in ENTRIES if "seen" in entry]
    modules = re.findall(r"-m (tests\.[a-z_.]+)", " ".join(runs))
    assert len(modules) >= 6
    for module in modules:
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """Return the text of the launcher and of the tests, by kind."""
    own = launchers.PACKAGE.rglob("*.py")
    files = (each for each in TESTS.rglob("*") if each.suffix in (".py", ".yaml") and each != FILE)
    tests = (each for each in files if "golden" not in each.parts)
    read = {"launchers": own, "tests": tests}
    return {k: "\n".join(each.read_text(encoding="utf-8") for each in v) for k, v in read.items()}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each["entry"][:50])
def test_patches_ids_and_tests_exist(entry: dict[str, Any], sources: dict[str, str]) -> None:
    after = entry.get("after", {})
    assert set(after.get("patch", ())) <= {patch.feature for patch in PATCHES}
    for id in (*after.get("refused", ()), *after.get("warned", ())):
        assert f'"{id}"' in sources["launchers"], id
        given = (f'"{id}"', f"id: {id}\n", f"id={id}")
        assert any(each in sources["tests"] for each in given), id
    for name in (*after.get("tests", ()), *filter(None, [entry.get("before")])):
        path, _, function = name.partition("::")
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if hasattr(node, "name")}, name
