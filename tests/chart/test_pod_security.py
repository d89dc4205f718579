"""NOTES name the level of chart/OPERATIONS.md's table; tests/e2e asks the real admission."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.chart.helm import CHART, call, merged
from tests.chart.levels import LEVELS, options


def level_in_notes(tmp_path: Path, words: str) -> str:
    """Return the Pod Security level that the chart's NOTES name."""
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(merged(options()[words][1])), encoding="utf-8")
    done = call("install", "run", str(CHART), "--dry-run=client", "-f", str(values))
    assert done.returncode == 0, done.stderr
    found = re.search(r"the namespace must admit the (\w+) Pod Security level", done.stdout)
    return found[1] if found else "restricted"


@pytest.mark.parametrize("words", options())
def test_notes_name_the_level_of_the_table(tmp_path: Path, words: str) -> None:
    assert level_in_notes(tmp_path, words) == options()[words][0]


def test_the_table_has_every_level() -> None:
    assert {level for level, _ in options().values()} == set(LEVELS)
    assert len(options()) > 12
