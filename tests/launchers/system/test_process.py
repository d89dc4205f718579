import os
import sys
import threading
import time
from pathlib import Path

import pytest

from launchers.system import process
from launchers.system.process import Child
from tests.launchers.waiting import eventually

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
NAP = [sys.executable, "-c", "import time; print('napping', flush=True); time.sleep(60)"]


def started(output: Path, argv: list[str]) -> Child:
    return Child(argv, dict(os.environ), output)


def until_written(output: Path, word: str) -> None:
    assert eventually(lambda: word in output.read_text()), output.read_text()


def test_the_childs_code_and_output_are_kept(tmp_path: Path) -> None:
    child = started(tmp_path / "log", [sys.executable, "-c", "print('out'); exit(42)"])
    assert child.wait(threading.Event()) == 42
    child.end(grace=1)
    assert (tmp_path / "log").read_text() == "out\n"


def test_children_may_open_as_many_files_as_the_hard_limit_allows(tmp_path: Path) -> None:
    code = """
import resource
from launchers.system import process
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
process.allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    started(tmp_path / "log", [sys.executable, "-c", code]).wait(threading.Event())
    assert (tmp_path / "log").read_text() == "4096 4096\n"


def test_output_without_a_line_end_is_seen_at_once(tmp_path: Path) -> None:
    bar = "import sys, time; sys.stdout.write('50%\\r'); sys.stdout.flush(); time.sleep(60)"
    child = started(tmp_path / "log", [sys.executable, "-c", bar])
    until_written(tmp_path / "log", "50%")
    child.end(grace=5)


def test_a_wake_ends_the_wait_but_not_the_child(tmp_path: Path) -> None:
    child = started(tmp_path / "log", NAP)
    wake = threading.Event()
    threading.Timer(0.2, wake.set).start()
    assert child.wait(wake) is None
    until_written(tmp_path / "log", "napping")
    begin = time.monotonic()
    child.end(grace=30)  # SIGTERM is enough for a child that listens
    assert time.monotonic() - begin < 5


def test_a_child_that_says_it_has_failed_is_not_waited_for(tmp_path: Path) -> None:
    """Also if it ignores SIGTERM, as Python does while it exits."""
    slow = DEAF + "print('a' * 9000, flush=True); time.sleep(0.3); print('failed', flush=True);"
    words = [sys.executable, "-c", f"{slow} time.sleep(60)"]
    child = Child(words, dict(os.environ), tmp_path / "log", lambda text: b"failed" in text)
    until_written(tmp_path / "log", "a")
    assert child.poll() is None
    begin = time.monotonic()
    assert child.wait(threading.Event()) == 1
    child.end(grace=30)
    assert time.monotonic() - begin < 10
    assert (tmp_path / "log").read_text().endswith("failed\n")


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    deaf = DEAF + "print('deaf', flush=True); time.sleep(60)"
    child = started(tmp_path / "log", [sys.executable, "-c", deaf])
    until_written(tmp_path / "log", "deaf")
    begin = time.monotonic()
    child.end(grace=0.5)
    assert 0.4 < time.monotonic() - begin < 5


def test_a_child_that_the_kernel_holds_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = started(tmp_path / "log", ["sleep", "60"])
    monkeypatch.setattr(process, "KILL_SECONDS", 0.1)
    with monkeypatch.context() as held:  # no signal ends it
        held.setattr(process, "kill_descendants", lambda **_: False)
        held.setattr(process, "_signal_group", lambda *_: None)
        ending = threading.Thread(target=child.end, args=(0.1,), daemon=True)
        ending.start()
        ending.join(8)
        assert not ending.is_alive() and child.poll() is None
    child.end(1)


def test_a_full_disk_does_not_hang_the_child() -> None:
    flood = "import sys; sys.stdout.write('x' * 1_000_000); sys.stdout.flush()"
    child = started(Path("/dev/full"), [sys.executable, "-c", flood])
    assert child.wait(threading.Event()) == 0
    child.end(grace=1)
