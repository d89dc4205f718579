"""Processor time of each file of tests, against its budget: ``make durations`` rewrites those.

The time is that of the test's process and of its children, so that a busy machine makes no test
too long. A test can adopt a process of another file, so that a file over its budget is run once
more, alone, before it fails. A file of real trainings is judged once it has a budget.
"""

import json
import math
import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.json")
"""Path of a file of tests to its budget in seconds; those of ``SHORT`` or less are left out."""
SHORT = 3
FACTOR, MARGIN = 3, 30
"""A file is too long above so many times its budget and so many seconds more."""


_OPEN, _LIST = open, os.listdir
"""As they were: a test may have replaced them when its time is read."""


def _text(file: str) -> str:
    """Return a file of /proc; nothing if its process or thread has ended."""
    try:
        with _OPEN(file, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def _threads() -> list[str]:
    try:
        return _LIST("/proc/self/task")
    except OSError:
        return []


def spent() -> float:
    """Return the seconds of this process, of its ended children and, with /proc, of those that run.

    Without the latter, the renderer's time is that of the test that kills it.
    """
    ticks = 0
    for thread in _threads():
        for child in _text(f"/proc/self/task/{thread}/children").split():
            fields = _text(f"/proc/{child}/stat").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # its own and its ended children's
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return ticks / os.sysconf("SC_CLK_TCK") + sum(u.ru_utime + u.ru_stime for u in usages)


def too_long(found: Mapping[str, float], budgets: Mapping[str, int]) -> list[str]:
    """Return a line for each file that is over its budget.

    >>> too_long({"a": 60, "b": 61, "c": 39}, {"a": 10, "b": 10})
    ['b: 61 s of a processor, budget 10 s']
    """
    return [
        f"{file}: {seconds:.0f} s of a processor, budget {budget} s"
        for file, seconds in sorted(found.items())
        if seconds > FACTOR * (budget := budgets.get(file, SHORT)) + MARGIN
    ]


def alone(file: str) -> float:
    """Return the processor time in s of a file of tests in a process of its own."""
    before = spent()
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", file]
    subprocess.run(command, cwd=FILE.parents[1], stdout=subprocess.DEVNULL, check=False)
    return spent() - before


class Durations:
    """The plugin: workers measure, the process that reports adds up and compares."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_rewritten = bool(config.getoption("--update-durations"))
        self._fails = bool(config.getoption("--keep-durations"))
        self._found: dict[str, float] = defaultdict(float)
        self._real: set[str] = set()
        self._lines: list[str] = []
        self._mark = spent()

    def pytest_runtest_logstart(self) -> None:
        """Leave out what was between two tests."""
        self._mark = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Add the seconds of a phase to its report, which xdist sends with all its attributes."""
        report = yield
        before, self._mark = self._mark, spent()
        report.processor_seconds = self._mark - before
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._found[file] += getattr(report, "processor_seconds", 0.0)
        if "real" in report.keywords:
            self._real.add(file)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Rewrite the budgets of the files that ran, or compare."""
        if hasattr(session.config, "workerinput"):
            return
        budgets = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
        if self._is_rewritten:
            budgets |= {file: math.ceil(seconds) for file, seconds in self._found.items()}
            root = FILE.parents[1]
            kept = {f: s for f, s in sorted(budgets.items()) if s > SHORT and (root / f).exists()}
            FILE.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
        judged = self._found.keys() - (self._real - budgets.keys())
        found = {file: self._found[file] for file in judged}
        if self._fails and session.exitstatus == pytest.ExitCode.OK:
            found = {file: alone(file) for file in found if too_long({file: found[file]}, budgets)}
            if too_long(found, budgets):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._lines = too_long(found, budgets)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            advice = "shorten them, or write `make durations` if the time is well spent"
            terminalreporter.section(f"over their budget of tests/durations.json: {advice}")
            for line in self._lines:
                terminalreporter.write_line(line)
