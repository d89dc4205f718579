"""Descriptions of training flags: of flags that exist, and of all that values files set."""

from pathlib import Path

import pytest

from launchers.yaml_file import read_yaml
from scripts.dev.flags import DESCRIPTIONS
from scripts.values.flags import tables
from tests.chart.test_values_files import FILES

DESCRIBED: dict[str, str] = read_yaml(DESCRIPTIONS)


def test_each_description_is_of_a_flag_that_users_set() -> None:
    known, others = set[str](), set[str]()
    for backend in (each for table in tables().values() for each in table["backends"].values()):
        known |= {name for names in backend["flags"].values() for name in names}
        others |= {*backend["launcherOwned"], *backend["secret"]}
    assert DESCRIBED.keys() <= known - others


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_flag_of_a_values_file_is_described(file: Path) -> None:
    recipe = (read_yaml(file) or {}).get("recipe") or {}
    assert (recipe.get("args") or {}).keys() <= DESCRIBED.keys()


def test_a_description_is_one_short_sentence() -> None:
    assert [name for name, text in DESCRIBED.items() if len(text) > 125 or text[-1] != "."] == []
