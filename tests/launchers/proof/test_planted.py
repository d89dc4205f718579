"""`patches --prove` finds patches that are wrong in one way each, with the real ms-swift on CPU."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from launchers.proof import prove
from scripts.helm import ROOT
from tests.launchers.training_environment import ORACLE, PYTHON, needs_oracle


@needs_oracle
@pytest.mark.timeout(1200)
def test_each_wrong_patch_is_found(tmp_path: Path) -> None:
    env = {**os.environ, **prove.ON_CPU, "PYTHONPATH": f"{ROOT}:{ORACLE}"}
    done = subprocess.run(
        [PYTHON, "-m", "tests.launchers.proof.planted", str(tmp_path)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    assert len(found) >= 10
    assert [name for name, faults in found.items() if not faults] == []
    assert [f for faults in found.values() for f in faults if "run failed" in f] == []
