"""Crash points: none breaks a promise, and the search finds code that does not flush."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.helm import ROOT

FLUSHED = (
    "checkpoints",
    "checkpoint saved again",
    "nodes' disks",
    "a node's disk lost",
    "outputs of stages",
    "replaced files",
)
"""Scenarios that break promises without ``fsync``."""


def crash(results: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the search in a process of its own, because its audit hook stays; by scenario."""
    command = [sys.executable, "-m", "tests.faults.crash", "--results", str(results), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert results.exists(), done.stderr[-2000:]
    found = json.loads(results.read_text())["scenarios"]
    return done.returncode, {each["scenario"]: each for each in found}


def test_no_crash_point_breaks_a_promise(tmp_path: Path) -> None:
    code, found = crash(tmp_path / "results.json", "--points", "2000", "--seed", "1")
    assert found["all"]["examples"] == []
    assert (code, found["all"]["broken"]) == (0, 0)
    assert found["all"]["points"] >= 2000


def test_without_fsync_promises_break_and_torn_results_are_taken_for_whole(tmp_path: Path) -> None:
    code, found = crash(tmp_path / "results.json", "--points", "2000", "--without-fsync")
    assert code == 1
    assert [name for name in FLUSHED if not found[name]["broken"]] == []
