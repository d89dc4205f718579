"""``python3 -m launchers state`` as a person or a verb starts it: its exit codes, and no change."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launchers import PACKAGE
from launchers.exits import Exit

LOG = {"path": "/w/a", "offset": 0, "tail": None, "pattern": None}
LOG |= {"limit": 10, "seconds": 1, "last": False}
SMALL = json.dumps({"limit": 10, "cut": 0, "patterns": [r".*\.json"]})


def said(*words: str, **env: str) -> tuple[int, str, str]:
    command, inside = [sys.executable, "-m", "launchers", *words], {**os.environ, **env}
    done = subprocess.run(command, cwd=PACKAGE.parent, env=inside, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "id"),
    [
        (["state"], Exit.USAGE, "state-usage"),
        (["state", "--json", "--rows", "many"], Exit.USAGE, "state-usage"),
        (["state", "--json"], Exit.USAGE, "state-run-unknown"),
        (["state", "--files", "{", "/w/runs/dpo"], Exit.USAGE, "state-usage"),
        (["state", "--files", SMALL, "/nowhere/runs/dpo"], Exit.INPUT_MISSING, "state-run-missing"),
        (["state", "--files", '{"limit": 1, "cuts": 0}', "/w/runs/dpo"], Exit.USAGE, "state-usage"),
        (["state", "--log", '{"path": "/w/a"}'], Exit.USAGE, "state-usage"),
        (["state", "--log", json.dumps(LOG | {"tail": "all"})], Exit.USAGE, "state-usage"),
        (["state", "--log", json.dumps(LOG | {"pattern": "("})], Exit.USAGE, "state-usage"),
        (["clean", "purge", "/w"], Exit.USAGE, "state-usage"),
    ],
)
def test_an_error_is_one_line_with_its_id(words: list[str], code: Exit, id: str) -> None:
    found, out, err = said(*words)
    assert (found, out, err.count("\n")) == (code, "", 1) and f"[{id}]" in err


def test_a_run_that_is_not_there_and_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    code, out, _ = said("state", "--json", DPO_WORKSPACE=str(tmp_path), DPO_RUN="dpo")
    assert (code, json.loads(out)["exists"], json.loads(out)["schema"]) == (0, False, 1)
    code, out, err = said("state", "--log", json.dumps(LOG | {"path": f"{tmp_path}/\x1b[31mnone"}))
    assert (code, out) == (Exit.IO, "") and "none" in err and "\x1b" not in err


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "runs" / "dpo"
    home.mkdir(parents=True)
    (home / "progress.json").write_text("{}")
    code, out, err = said("state", "--files", SMALL, str(home))
    assert (code, out) == (Exit.USAGE, "") and "[state-files-size]" in err
    assert [each.name for each in tmp_path.rglob("*")] == ["runs", "dpo", "progress.json"]


def test_a_reader_loads_nothing_that_runs_a_run() -> None:
    """It starts in a pod that trains, and in a reader pod with little processor time."""
    words = [sys.executable, "-c", "import sys, launchers.state.command; print(*sys.modules)"]
    loaded = set(subprocess.check_output(words, cwd=PACKAGE.parent, text=True).split())
    assert "launchers.state.document" in loaded
    packages = {name.split(".")[1] for name in loaded if name.count(".") == 2}
    assert not packages & {"run", "preflight", "hub", "inputs", "flags", "upstream", "training"}
