"""`patches --prove` finds patches that are wrong in one way each, with the real ms-swift on CPU."""

import json
from pathlib import Path

import pytest

from launchers.proof import prove
from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import ORACLE, needs_oracle


@needs_oracle
@pytest.mark.timeout(1200)
def test_each_wrong_patch_is_found(tmp_path: Path) -> None:
    env = {**prove.ON_CPU, "PYTHONPATH": f"{ROOT}:{ORACLE}"}
    module = "tests.launchers.proof.planted"
    said = warm.printed("-m", module, tmp_path, program=warm.python(oracle=True), **env)
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    assert len(found) >= 10
    assert [name for name, faults in found.items() if not faults] == []
    assert [f for faults in found.values() for f in faults if "run failed" in f] == []
