"""Only programs that were started here are ended, however their process ids were used since."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.problem import Problem
from tests.e2e.cluster import supervise
from tests.e2e.cluster.layout import Layout

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
STUBBORN = (
    sys.executable,
    "-uc",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('on'); time.sleep(60)",
)


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout(home=tmp_path)
    yield made
    for process in supervise.recorded(made):
        supervise.stop(made, process.name, grace=0)


def test_a_program_runs_until_it_is_stopped_and_its_record_goes_with_it(layout: Layout) -> None:
    process = supervise.start(layout, "one", SLEEP)
    assert process.alive
    assert supervise.find(layout, "one") == process
    supervise.stop(layout, "one")
    assert not process.alive
    assert supervise.find(layout, "one") is None


def test_its_output_is_in_its_log(layout: Layout) -> None:
    process = supervise.start(layout, "one", ["sh", "-c", "echo out; echo err >&2"])
    while process.alive:
        time.sleep(0.01)
    assert (layout.logs / "one.log").read_text().split() == ["out", "err"]


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(layout: Layout) -> None:
    process = supervise.start(layout, "one", STUBBORN)
    while not (layout.logs / "one.log").read_text():
        time.sleep(0.01)
    began = time.monotonic()
    supervise.stop(layout, "one", grace=0.3)
    assert time.monotonic() - began >= 0.3
    assert not process.alive


def test_a_process_that_got_the_same_id_since_is_never_signalled(layout: Layout) -> None:
    stranger = subprocess.Popen(SLEEP)
    try:
        record = layout.run / "pids" / "one.json"
        record.parent.mkdir(parents=True)
        started = supervise.start_time(stranger.pid)
        assert started is not None
        earlier = {"name": "one", "pid": stranger.pid, "started": started - 1}
        record.write_text(json.dumps(earlier))
        found = supervise.find(layout, "one")
        assert found is not None and not found.alive
        supervise.stop(layout, "one", grace=0)
        assert stranger.poll() is None
        assert not record.exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_an_ended_program_that_nobody_waited_for_counts_as_ended(layout: Layout) -> None:
    process = supervise.start(layout, "one", SLEEP)
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process.alive
    assert Path(f"/proc/{process.pid}").exists()  # a zombie: its id can't be another's yet


def test_a_command_that_dies_before_it_has_recorded_a_program_leaves_none(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = (
        "import os, sys; from pathlib import Path;"
        "from tests.e2e.cluster import supervise; from tests.e2e.cluster.layout import Layout;"
        "supervise.hand_over = lambda *_: os._exit(9);"
        "supervise.start(Layout(home=Path(sys.argv[1])), 'one', ['touch', sys.argv[2]])"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path, ran]).returncode == 9
    while open_logs(tmp_path / "logs" / "one.log"):
        time.sleep(0.01)
    assert not ran.exists()


def open_logs(log: Path) -> list[Path]:
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if link.readlink() == log:
                found.append(link)
        except OSError:
            continue
    return found


def test_the_newest_program_is_listed_first(layout: Layout) -> None:
    for name in ("one", "two", "three"):
        supervise.start(layout, name, SLEEP)
        time.sleep(0.01)
    assert [process.name for process in supervise.recorded(layout)] == ["three", "two", "one"]


def test_waiting_for_a_program_that_ended_names_its_log_at_once(layout: Layout) -> None:
    supervise.start(layout, "one", ["false"])
    with pytest.raises(Problem, match=r"one exited before it was ready; .*one\.log"):
        supervise.wait_until(layout, "one", "ready", lambda: False)


def test_waiting_ends_at_the_deadline(layout: Layout) -> None:
    supervise.start(layout, "one", SLEEP)
    with pytest.raises(Problem, match=r"one is not ready after 0 s; see its log .*one\.log"):
        supervise.wait_until(layout, "one", "ready", lambda: False, limit=0.2)
