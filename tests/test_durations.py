"""Files of tests have a budget of processor time, and `make check` fails over it."""

import doctest
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import durations

LISTED, NEW, REAL = (f"tests/{name}.py" for name in ("test_listed", "test_new", "test_real"))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of budgets below a root in which only one file of tests exists."""
    path = tmp_path / LISTED
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(durations, "FILE", path.with_name("durations.json"))
    durations.FILE.write_text(json.dumps({LISTED: 10, "tests/test_gone.py": 10}))
    return durations.FILE


def ended(seconds: dict[str, float], *given: str) -> int:
    """End a session in which files took some seconds; return its exit status."""
    config: Any = SimpleNamespace(getoption=lambda option: option in given)
    plugin = durations.Durations(config)
    for name, spent in seconds.items():
        keywords = {"real": 1} if name == REAL else {}
        for part in (0.25, 0.75):  # phases of a test
            fields = {"keywords": keywords, "processor_seconds": part * spent}
            report: Any = SimpleNamespace(nodeid=f"{name}::test", **fields)
            plugin.pytest_runtest_logreport(report)
    session: Any = SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK)
    plugin.pytest_sessionfinish(session)
    return int(session.exitstatus)


@pytest.mark.parametrize(
    ("seconds", "again", "status"),
    [
        ({LISTED: 60}, 99, 0),
        ({LISTED: 61}, 61, 1),
        ({LISTED: 61}, 60, 0),  # the process of another file was waited for
        ({NEW: 39}, 99, 0),
        ({NEW: 40}, 40, 1),
        ({REAL: 500}, 500, 0),
    ],
)
def test_a_file_far_over_its_budget_fails_the_check_if_it_is_alone_too(
    file: Path,
    seconds: dict[str, float],
    again: float,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durations, "alone", lambda _: again)
    assert ended(seconds, "--keep-durations") == status
    assert ended(seconds) == 0


def test_a_file_alone_takes_the_time_of_its_processes(file: Path) -> None:
    code = "import time\nwhile time.process_time() < 2: pass"
    test = f"import subprocess, sys\ndef test_x(): subprocess.run([sys.executable, '-c', {code!r}])"
    (file.parents[1] / LISTED).write_text(test)
    assert 2 <= durations.alone(LISTED) < 20


def test_the_time_of_a_child_counts_while_it_runs_and_once() -> None:
    code = "import time\nwhile time.process_time() < 1: pass\nprint(flush=True)\ninput()"
    before = durations.spent()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert durations.spent() - before > 0.9
        child.kill()
    assert durations.spent() - before < 1.8


def test_budgets_are_rewritten_without_short_files_and_files_that_are_gone(file: Path) -> None:
    ended({LISTED: 6.2, NEW: 2.9}, "--update-durations")
    assert json.loads(file.read_text()) == {LISTED: 7}


def test_the_examples_hold() -> None:
    assert doctest.testmod(durations).failed == 0
