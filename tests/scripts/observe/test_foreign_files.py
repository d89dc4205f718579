"""Files that the user may not read, or that no launcher wrote: they are noted, the rest is shown.

Root may read all files, so this thread drops that capability for a verb.
"""

import ctypes
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.state import contents
from launchers.state import document as state
from scripts.observe.workspace import read_run
from scripts.report import command as reporting
from scripts.report import document, reading
from tests.scripts.calling import Call, Ended
from tests.scripts.observe.planted import rewrite
from tests.scripts.status.recorded import make_run

OVERRIDE = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of linux/capability.h."""
DEEP = "[" * 100_000
EXTREMES = (10**400, 10**30, 1e308, -1e308, 2.5, None, True, "x", {"a": 1})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("dpo", "other"):
        make_run(tmp_path, name, time.time())
    return tmp_path


@contextmanager
def modes_apply() -> Iterator[None]:
    """Take this thread's rights to read and write whatever the modes of files say, capset(2)."""
    system = ctypes.CDLL(None)
    header, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert system.capget(header, held) == 0
    less = type(held)(held[0] & ~OVERRIDE, *held[1:])
    assert system.capset(header, less) == 0
    yield
    assert system.capset(header, held) == 0


Said = Callable[..., Ended]


@pytest.fixture
def said(root: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Said:
    """Call a verb as a user to whom the modes of files apply."""
    monkeypatch.setenv("KUBECONFIG", str(root / "none"))
    monkeypatch.setenv("COLUMNS", "300")

    def said(*words: str) -> Ended:
        with modes_apply():
            return call(*words, "--workspace", str(root))

    return said


@pytest.mark.parametrize("hidden", ["runs/dpo", "runs/dpo/checkpoints/checkpoint-32"])
def test_the_other_runs_are_listed(hidden: str, root: Path, said: Said) -> None:
    (root / hidden).chmod(0)
    for verb in ("list", "clean"):
        code, out, _ = said(verb, "--json")
        found = json.loads(out)
        assert (code, [each["run"] for each in found["runs"]]) == (0, ["dpo", "other"])
        if verb == "list":
            assert any(n.startswith("not all files of dpo were read: ") for n in found["notes"])


def test_a_run_with_an_unreadable_checkpoint_and_metrics_is_shown(root: Path, said: Said) -> None:
    home = root / "runs" / "dpo"
    (home / "checkpoints" / "checkpoint-32").chmod(0)
    (home / "metrics.jsonl").chmod(0)
    code, out, _ = said("status", "dpo")
    assert code == 0 and "34/107" in out and "metrics.jsonl" in out.partition("note")[2]
    code, out, error = said("report", "dpo", "-o", "json")
    (run,) = json.loads(out)["runs"]
    assert any("metrics.jsonl: not read" in n for n in run["notes"]) and run["checkpoints"] == [24]
    code, out, error = said("bundle", "dpo", "--no-cluster", "--file", str(root / "b"))
    assert code == 0 and "not readable (Permission denied) (2 files" in out, error


@pytest.mark.parametrize("hidden", ["", "/checkpoint-32", "/checkpoint-32/COMPLETE.json"])
def test_a_run_whose_checkpoints_cannot_be_judged_is_not_removed(
    hidden: str, root: Path, said: Said
) -> None:
    saved = root / "runs" / "dpo" / "checkpoints"
    (saved / "checkpoint-24" / "COMPLETE.json").unlink()
    Path(f"{saved}{hidden}").chmod(0)
    code, _, error = said("clean", "dpo", "--yes")
    assert code == 1 and "whether it may resume is not known" in error
    assert (root / "runs" / "dpo" / "progress.json").exists()


@pytest.mark.parametrize(
    "hidden", ["checkpoints/checkpoint-32/shards", "attempts", "attempts/1/start.json"]
)
def test_a_run_is_not_removed_where_a_file_that_judges_it_is_hidden(
    hidden: str, root: Path, said: Said
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
    code, _, error = said("clean", "moved", "--yes")
    assert code == 1 and "whether it may resume is not known" in error
    assert (home / "progress.json").exists()


@pytest.mark.parametrize("mode", [0, 0o444])
def test_a_run_that_may_not_be_read_is_not_called_absent(mode: int, root: Path, said: Said) -> None:
    (root / "runs").chmod(mode)
    _, out, _ = said("why", "dpo", "--json")
    notes = json.loads(out)["notes"]
    assert any("Permission denied" in each and "runs/dpo" in each for each in notes)
    assert not any("is it the workspace of this run" in each for each in notes)


def test_runs_that_may_not_be_listed_are_no_empty_workspace(root: Path, said: Said) -> None:
    (root / "runs").chmod(0)
    code, out, error = said("list")
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
