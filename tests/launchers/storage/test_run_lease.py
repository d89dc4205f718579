"""A launcher that was suspended for longer than its lease writes nothing after it resumes."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.progress.progress import Progress
from launchers.stages import attempt_record
from launchers.storage import checkpoint, lock, retention, run_lease
from launchers.storage.lock import Lock, successor_of
from launchers.storage.lock_owner import this_process
from launchers.storage.run_lease import RunLease
from launchers.system import lookup
from tests.launchers.storage.outputs import run, writer
from tests.launchers.storage.quick_locks import QUICK, quick
from tests.launchers.storage.test_checkpoint import saved
from tests.launchers.waiting import eventually


def taken_over(path: Path, own: str) -> None:
    successor_of(path, own).write_text(this_process("other").text())


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run's folder; this process belongs to a launcher that has lost the run."""
    home = tmp_path / "runs" / "r"
    for step in (2, 4):
        checkpoint.seal(saved(home / "checkpoints", step), step)
    saved(home / "checkpoints", 6)
    with quick(home / "run.lock") as held:
        taken_over(held.path, held.token)
        monkeypatch.setenv(run_lease.VARIABLE, str(RunLease(held.path, held.token)))
        return home


def files(home: Path) -> dict[str, bytes]:
    found = (path for path in home.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if "run.lock" not in path.name}


WRITERS: dict[str, Callable[[Path], object]] = {
    "seal": lambda home: checkpoint.seal(home / "checkpoints" / "checkpoint-6", 6),
    "unseal": lambda home: checkpoint.unseal(home / "checkpoints" / "checkpoint-4"),
    "rotation": lambda home: retention.apply(home / "checkpoints", 1),
    "progress": lambda home: Progress(path=home / "progress.json", run="r", digest="").write(),
    "attempt": lambda home: attempt_record.begin(home / "attempts" / "2", None),
}


@pytest.mark.parametrize("name", WRITERS)
def test_who_has_lost_the_run_changes_no_file(name: str, lost: Path) -> None:
    before = files(lost)
    with pytest.raises(LaunchError) as end:
        WRITERS[name](lost)
    assert (end.value.code, end.value.id) == (Exit.PREEMPTED, "run-taken-over")
    assert files(lost) == before


def test_no_export_is_put_into_its_place(lost: Path) -> None:
    with pytest.raises(LaunchError) as end:
        run(lost / "export", writer(weights="x"))
    assert end.value.id == "run-taken-over" and not (lost / "export").exists()


def test_an_owner_and_a_process_without_a_launcher_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "CACHED", 0.1)
    run_lease.check()
    with quick(tmp_path / "run.lock") as held:
        lease = RunLease(held.path, held.token)
        assert lease.loss() is None
    found = lease.loss()
    assert found is not None and "it has ended" in found.cause


def test_an_unreadable_lock_is_neither_lost_nor_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lease, "SECONDS", 0.5)
    read, broken = lock.read_chain, threading.Event()

    def fail(path: Path) -> lock.Chain:
        if broken.is_set():
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(path)

    with quick(tmp_path / "run.lock") as held:
        lease = RunLease(held.path, held.token)
        monkeypatch.setattr(lock, "read_chain", fail)
        broken.set()
        threading.Timer(0.2, broken.clear).start()
        assert lease.loss() is None
        broken.set()
        with pytest.raises(LaunchError, match="Stale file handle") as end:
            lease.loss()
        assert (end.value.code, end.value.id) == (Exit.IO, "lock-unreadable")
        broken.clear()


@pytest.mark.parametrize(("happens", "code"), [("taken", Exit.PREEMPTED), ("unreadable", Exit.IO)])
def test_the_heartbeat_that_finds_another_owner_or_none_is_the_last(
    happens: str, code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[LaunchError | None] = []
    held = quick(tmp_path / "run.lock", on_loss=seen.append)
    with held:
        lease = RunLease(held.path, held.token)
        time.sleep(3 * QUICK["beat"])
        assert seen == []
        if happens == "taken":
            taken_over(held.path, held.token)
        else:
            monkeypatch.setattr(lock, "read_chain", _broken)
        assert eventually(lambda: seen)
        monkeypatch.undo()
        error = seen[0] or lease.loss()
    assert error is not None and error.code == code


@pytest.mark.parametrize("shown", ["nothing", "another owner"])
def test_a_lock_that_a_cache_hides_for_a_while_is_not_lost(
    shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "CACHED", 2.0)
    path, seen, read = tmp_path / "run.lock", list[LaunchError | None](), lock.read_chain
    hidden = [] if shown == "nothing" else [(path, this_process("previous"), 0)]
    with Lock(path, "me", stale=10, beat=0.05, on_loss=seen.append) as held:
        lease = RunLease(path, held.token)
        monkeypatch.setattr(lock, "read_chain", lambda path: hidden)
        threading.Timer(2 * QUICK["stale"], monkeypatch.setattr, (lock, "read_chain", read)).start()
        assert lease.loss() is None
        held.check()
    assert seen == [] and not path.exists()


def test_a_lock_of_another_owner_is_lost_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "CACHED", 0.2)
    with quick(tmp_path / "run.lock", "next") as held:
        found = RunLease(held.path, "previous").loss()
    assert found is not None and found.code == Exit.PREEMPTED and "next@" in found.cause


@pytest.mark.parametrize("place", ["", "away"], ids=["who may not wait", "a mount is away"])
def test_without_an_answer_no_other_owner_is_named(tmp_path: Path, place: str) -> None:
    begin = time.monotonic()
    with pytest.raises(LaunchError) as end, lookup.within(0.2):
        RunLease(tmp_path / place / "run.lock", "t").loss()
    assert (end.value.code, end.value.id) == (Exit.IO, "lock-unreadable")
    assert time.monotonic() - begin < 10


def test_heartbeats_continue_after_a_loss_that_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "CACHED", 0.0)
    seen, path = threading.Event(), tmp_path / "run.lock"

    def lose(error: LaunchError | None) -> None:
        monkeypatch.undo()
        seen.set()

    with quick(path, on_loss=lose):
        monkeypatch.setattr(lock, "read_chain", lambda path: [])
        assert seen.wait(10)
        before = path.stat().st_mtime_ns
        assert eventually(lambda: path.stat().st_mtime_ns != before), "no heartbeat any more"


def test_an_owner_paused_for_longer_than_its_lease_waits_for_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = threading.Event()
    with quick(tmp_path / "run.lock", on_loss=lambda error: lost.set()) as held:

        def paused(path: Path) -> lock.Chain:
            held._last_beat -= 100
            return []  # its successor has ended

        monkeypatch.setattr(lock, "read_chain", paused)
        assert lost.wait(10)


def test_a_descriptor_that_is_stale_for_ever_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch, old = os.utime, -1

    def utime(file: int) -> None:
        if os.fstat(file).st_ino == old:
            raise OSError(errno.ESTALE, "Stale file handle")
        touch(file)

    with quick(tmp_path / "run.lock") as held:
        old = held.path.stat().st_ino
        again = tmp_path / "again"  # the server's new file handle of the same file
        again.write_text(held.path.read_text())
        again.replace(held.path)
        monkeypatch.setattr(os, "utime", utime)
        time.sleep(2 * QUICK["stale"])
        held.check()


def test_a_lock_that_cannot_be_touched_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[LaunchError | None] = []
    with quick(tmp_path / "run.lock", on_loss=seen.append):
        monkeypatch.setattr(os, "utime", _broken)
        assert eventually(lambda: seen)
    assert seen[0] is not None and seen[0].id == "lock-unreadable"


def _broken(path: Path) -> lock.Chain:
    raise OSError(errno.EIO, "Input/output error", str(path))


LAUNCHER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from types import SimpleNamespace
from launchers.config.workspace import Workspace
from launchers.storage import lock, run_lease
run_lease.STALE_SECONDS, lock.BEAT = 1.0, 0.1
work = Workspace(root=Path(sys.argv[1]), run="r")
launch = SimpleNamespace(work=work, place=SimpleNamespace(source=""), grace=1, pod="p", run="r")
with run_lease.alone(launch):
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_leader_whose_second_look_fails_ends_with_74(tmp_path: Path) -> None:
    fails = """
def fail(path): raise OSError(116, "Stale file handle")
def shown(path):
    lock.read_chain = fail
    return [(path, lock.this_process("next"), 0)]
lock.CACHED, run_lease.SECONDS = 0.0, 0.2
"""
    before, hold, inside = LAUNCHER.partition("with run_lease.alone(launch):")
    code = f"{before}{fails}{hold}\n    lock.read_chain = shown{inside}"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=50, check=False)
    assert done.returncode == Exit.IO


def test_a_leader_that_was_paused_ends_with_all_its_processes(tmp_path: Path) -> None:
    words = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        path = tmp_path / "runs" / "r" / "run.lock"
        taken_over(path, lock.read_chain(path)[0][1].token)
        assert leader.wait(20) == Exit.PREEMPTED
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
