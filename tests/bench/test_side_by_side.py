"""Several commands at once end independently."""

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from tests.bench import side_by_side
from tests.bench.side_by_side import Command

NOTES = """
import sys, time
from pathlib import Path
folder, name, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
(folder / f"{name}.begun").write_text(str(time.monotonic()))
time.sleep(seconds)
(folder / f"{name}.ended").write_text(str(time.monotonic()))
"""
HANGS = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(60)
"""

LOOKS = """
import sys, time
from pathlib import Path
time.sleep(2.4)
stat = Path("/proc", Path(sys.argv[1]).read_text(), "stat")
state = stat.read_text().rpartition(")")[2].split()[0] if stat.exists() else "gone"
Path(sys.argv[2]).write_text(state)
"""


def command(folder: Path, name: str, code: str, *words: str) -> Command:
    argv = [sys.executable, "-c", code, *words]
    return Command(name=name, words=argv, env=dict(os.environ), log=folder / f"{name}.log")


def notes(folder: Path, name: str, seconds: float) -> Command:
    return command(folder, name, NOTES, str(folder), name, str(seconds))


def span(folder: Path, name: str) -> tuple[float, float]:
    begun, ended = (float((folder / f"{name}.{part}").read_text()) for part in ("begun", "ended"))
    return begun, ended


def test_no_more_run_at_a_time_than_asked(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    ended = side_by_side.run([notes(tmp_path, n, 0.4) for n in names], at_once=2, limit=30)
    ends = {name: (end.why, end.code) for name, end in ended.items()}
    assert ends == dict.fromkeys(names, ("exited", 0))
    spans = [span(tmp_path, name) for name in names]
    most = max(sum(begun <= at < end for begun, end in spans) for at, _ in spans)
    assert most == 2


def test_the_first_has_its_lead_unless_it_ends(tmp_path: Path) -> None:
    both = [notes(tmp_path, "base", 2.5), notes(tmp_path, "other", 0.1)]
    side_by_side.run(both, at_once=2, limit=30, lead=1.5)
    assert 1.0 < span(tmp_path, "other")[0] - span(tmp_path, "base")[0] < 2.5
    begun = time.monotonic()
    short = [notes(tmp_path, "base", 0.1), notes(tmp_path, "other", 0.1)]
    side_by_side.run(short, at_once=2, limit=30, lead=20)
    assert time.monotonic() - begun < 10


def test_one_that_hangs_ends_with_its_children_while_another_continues(tmp_path: Path) -> None:
    pid, state = tmp_path / "pid", tmp_path / "state"
    hangs = command(tmp_path, "hangs", HANGS, str(pid))
    looks = command(tmp_path, "looks", LOOKS, str(pid), str(state))
    ended = side_by_side.run([hangs, looks], at_once=2, limit=3.0, lead=1.5)
    assert (ended["hangs"].why, ended["hangs"].code) == ("time limit", None)
    assert (ended["looks"].why, ended["looks"].code) == ("exited", 0)
    assert state.read_text() in ("gone", "Z"), "a child of the one that hung is left"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_what_can_not_begin_in_time_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "SHORTEST", 1.0)
    both = [notes(tmp_path, "a", 1.5), notes(tmp_path, "b", 0.1)]
    ended = side_by_side.run(both, at_once=1, limit=30, total=2.0)
    assert ended["a"].code == 0
    assert (ended["b"].why, ended["b"].code) == ("no time left", None)
    assert not (tmp_path / "b.log").exists()


def test_a_command_that_is_not_there_leaves_nothing_running(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    lost = Command(name="lost", words=["/no/such"], env={}, log=tmp_path / "lost.log")
    hangs = command(tmp_path, "hangs", HANGS, str(pid))
    with pytest.raises(FileNotFoundError):
        side_by_side.run([hangs, lost], at_once=2, limit=30, lead=1.0)
    with contextlib.suppress(FileNotFoundError), pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
