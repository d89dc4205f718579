"""Why an export is not compared."""

from pathlib import Path

import pytest

from launchers.config.settings import from_env
from launchers.rehearsal.read_back import read_back
from launchers.system.atomic_file import replace


@pytest.mark.parametrize(("began", "says"), [(True, "between the save"), (False, "only DPO")])
def test_a_step_without_a_record_says_why(began: bool, says: str, tmp_path: Path) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_MASTER_ADDR": "localhost"}
    launch = from_env(env).launch
    launch.work.home.mkdir(parents=True)
    if began:  # the first record is made before the first step
        replace(launch.work.probe(0), "{}")
    found = read_back(launch, launch.work.export, tmp_path, 7, {}, "transformers")
    assert says in found["not_compared"] and not found["problems"]
