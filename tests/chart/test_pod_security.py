"""NOTES name the level of chart/OPERATIONS.md's table; tests/e2e asks the real admission."""

import re

import pytest

from tests.chart.helm import notes
from tests.chart.levels import LEVELS, options


@pytest.mark.parametrize("words", options())
def test_notes_name_the_level_of_the_table(words: str) -> None:
    level, values = options()[words]
    found = re.search(r"the namespace must admit the (\w+) Pod Security level", notes(values))
    assert (found[1] if found else "restricted") == level


def test_the_table_has_every_level() -> None:
    assert {level for level, _ in options().values()} == set(LEVELS)
    assert len(options()) > 12
