"""Files that the user may not read, or that no launcher wrote: they are noted, the rest is shown.

Root may read all files, so root's processes drop that capability here.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.state import contents
from launchers.state import document as state
from scripts.observe.workspace import read_run
from scripts.report import command as reporting
from scripts.report import document, reading
from tests.scripts.observe.planted import rewrite
from tests.scripts.status.recorded import make_run

RIGHTS = "-dac_override,-dac_read_search"
PREFIX = ("setpriv", f"--bounding-set={RIGHTS}", f"--inh-caps={RIGHTS}")
ROOT = Path(__file__).parents[3]
DEEP = "[" * 100_000
EXTREMES = (10**400, 10**30, 1e308, -1e308, 2.5, None, True, "x", {"a": 1})


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    for name in ("dpo", "other"):
        make_run(tmp_path, name, time.time())
    yield tmp_path
    subprocess.run(["chmod", "-R", "u+rwX", str(tmp_path)], check=True)


def said(root: Path, *words: str) -> tuple[int, str, str]:
    """Run a verb as a user to whom the modes of files apply."""
    command = [*(() if os.geteuid() else PREFIX), sys.executable, "-m", "scripts.cli", *words]
    command += ["--workspace", str(root)]
    env = {**os.environ, "KUBECONFIG": str(root / "none"), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("hidden", ["runs/dpo", "runs/dpo/checkpoints/checkpoint-32"])
def test_the_other_runs_are_listed(hidden: str, root: Path) -> None:
    (root / hidden).chmod(0)
    for verb in ("list", "clean"):
        code, out, _ = said(root, verb, "--json")
        found = json.loads(out)
        assert (code, [each["run"] for each in found["runs"]]) == (0, ["dpo", "other"])
        if verb == "list":
            assert any(n.startswith("not all files of dpo were read: ") for n in found["notes"])


def test_a_run_with_an_unreadable_checkpoint_and_metrics_is_shown(root: Path) -> None:
    home = root / "runs" / "dpo"
    (home / "checkpoints" / "checkpoint-32").chmod(0)
    (home / "metrics.jsonl").chmod(0)
    code, out, _ = said(root, "status", "dpo")
    assert code == 0 and "34/107" in out and "metrics.jsonl" in out.partition("note")[2]
    code, out, error = said(root, "report", "dpo", "-o", "json")
    (run,) = json.loads(out)["runs"]
    assert any("metrics.jsonl: not read" in n for n in run["notes"]) and run["checkpoints"] == [24]
    code, out, error = said(root, "bundle", "dpo", "--no-cluster", "--file", str(root / "b"))
    assert code == 0 and "not readable (Permission denied) (2 files" in out, error


@pytest.mark.parametrize("hidden", ["", "/checkpoint-32", "/checkpoint-32/COMPLETE.json"])
def test_a_run_whose_checkpoints_cannot_be_judged_is_not_removed(hidden: str, root: Path) -> None:
    saved = root / "runs" / "dpo" / "checkpoints"
    (saved / "checkpoint-24" / "COMPLETE.json").unlink()
    Path(f"{saved}{hidden}").chmod(0)
    code, _, error = said(root, "clean", "dpo", "--yes")
    assert code == 1 and "whether it may resume is not known" in error
    assert (root / "runs" / "dpo" / "progress.json").exists()


@pytest.mark.parametrize(
    "hidden", ["checkpoints/checkpoint-32/shards", "attempts", "attempts/1/start.json"]
)
def test_a_run_is_not_removed_where_a_file_that_judges_it_is_hidden(
    hidden: str, root: Path
) -> None:
    """One that was moved: only its attempts have the name that is in its checkpoint."""
    home = (root / "runs" / "dpo").rename(root / "runs" / "moved")
    saved = home / "checkpoints" / "checkpoint-32"
    (saved.parent / "checkpoint-24" / "COMPLETE.json").unlink()
    (saved / "shards").mkdir()
    (saved / "shards" / "a").write_text("a")
    files = {**json.loads((saved / "COMPLETE.json").read_text())["files"], "shards/a": 1}
    inputs = {"recipe": "a"}
    rewrite(saved / "COMPLETE.json", files=files, run="dpo", inputs=inputs)
    (home / "inputs.json").write_text(json.dumps(inputs))
    (home / "attempts" / "1" / "start.json").write_text('{"run": "dpo"}')
    assert contents.describe(home)["newest"] == 32, "root reads all files"
    (home / hidden).chmod(0)
    code, _, error = said(root, "clean", "moved", "--yes")
    assert code == 1 and "whether it may resume is not known" in error
    assert (home / "progress.json").exists()


@pytest.mark.parametrize("mode", [0, 0o444])
def test_a_run_that_may_not_be_read_is_not_called_absent(mode: int, root: Path) -> None:
    (root / "runs").chmod(mode)
    _, out, _ = said(root, "why", "dpo", "--json")
    notes = json.loads(out)["notes"]
    assert any("Permission denied" in each and "runs/dpo" in each for each in notes)
    assert not any("is it the workspace of this run" in each for each in notes)


def test_runs_that_may_not_be_listed_are_no_empty_workspace(root: Path) -> None:
    (root / "runs").chmod(0)
    code, out, error = said(root, "list")
    assert code == 1 and "Permission denied" in error and "no runs" not in out


@pytest.mark.parametrize("line", [5, -2, -1])
@pytest.mark.parametrize(
    "name", ["step", "total", "attempt", "time", "seconds", "tokens", "world", "eval_seconds"]
)
def test_numbers_of_no_step_make_no_error_and_valid_json(name: str, line: int, root: Path) -> None:
    file = root / "runs" / "dpo" / "metrics.jsonl"
    lines = file.read_text().splitlines()
    whole = lines[line]
    for value in EXTREMES:
        lines[line] = json.dumps({**json.loads(whole), name: value})
        file.write_text("\n".join(lines))
        assert read_run(root, "dpo").progress
        run = reading.read(Workspace(root=root, run="dpo"))
        assert json.dumps(document.build([run], ["dpo"]), allow_nan=False)
        assert reporting.render([run], "html")


def test_deep_nesting_is_a_torn_file(root: Path) -> None:
    home = root / "runs" / "dpo"
    for name in ("progress.json", "inputs.json", "attempts/1/start.json"):
        (home / name).write_text(DEEP)
    for step in (24, 32):
        (home / "checkpoints" / f"checkpoint-{step}" / "COMPLETE.json").write_text(DEEP)
    lines = (home / "metrics.jsonl").read_text().splitlines()
    (home / "metrics.jsonl").write_text("\n".join([*lines[:9], DEEP, *lines[9:], DEEP]))
    files = read_run(root, "dpo")
    assert {"progress.json", "metrics.jsonl"} <= set(files.torn)
    assert files.row and files.row.step == 34
    run = reading.read(Workspace(root=root, run="dpo"))
    assert run.rows == 34 and "metrics.jsonl: torn lines left out: 2" in run.notes
    assert [each["run"] for each in contents.inventory(root)] == ["dpo", "other"]


def test_a_document_is_json_whatever_a_row_holds(root: Path) -> None:
    file = root / "runs" / "dpo" / "metrics.jsonl"
    last = json.loads(file.read_text().splitlines()[-2])
    broken = {"loss": [float("nan")], "card": {"a": float("inf")}, "beta": float("nan")}
    file.write_text(json.dumps({**last, **broken}))
    found = state.read(Workspace(root=root, run="dpo"))
    assert json.loads(json.dumps(found, allow_nan=False))["rows"][-1]["loss"] is None


def test_a_manifest_of_infinite_numbers_is_no_checkpoint(root: Path) -> None:
    file = root / "runs" / "dpo" / "checkpoints" / "checkpoint-32" / "COMPLETE.json"
    rewrite(file, step=float("inf"))
    assert reading.read(Workspace(root=root, run="dpo")).checkpoints == [24]
