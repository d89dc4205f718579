import errno
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit, LaunchError
from launchers.storage import lock_owner
from launchers.storage.lock import Lock, successor_of
from launchers.storage.lock_owner import LockOwner, this_process
from tests.launchers.storage.quick_locks import QUICK, quick


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.lock"


def test_the_lock_names_its_holder_and_is_gone_afterwards(path: Path) -> None:
    with quick(path, "pod-0"):
        there = json.loads(path.read_text())
        assert there["holder"] == "pod-0"
        assert there["pid"] == os.getpid()
        assert there["host"]
        assert there["at"].endswith("Z")
    assert list(path.parent.iterdir()) == []


def test_the_lock_is_given_back_after_an_error(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), quick(path):
        _ = 1 / 0
    assert list(path.parent.iterdir()) == []


def test_a_beating_holder_is_waited_for_however_long_it_takes(path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with quick(path):
            order.append("second")

    with quick(path) as lock:
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(3 * QUICK["stale"])
        order.append("first")
        lock.check()
    thread.join()
    assert order == ["first", "second"]


def test_a_name_that_can_t_be_claimed_is_tried_once_a_poll(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.symlink_to("nowhere")  # neither readable nor creatable
    tries, slept = [], []
    create = Lock._create

    def counted(lock: Lock, goal: Path) -> bool:
        tries.append(goal)
        assert len(tries) <= 3, "tried again without a pause"
        return create(lock, goal)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        path.unlink()

    monkeypatch.setattr(Lock, "_create", counted)
    monkeypatch.setattr("launchers.storage.lock.time.sleep", sleep)
    with quick(path) as lock:
        lock.check()
    assert (tries, slept) == ([path, path], [QUICK["poll"]])


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at locks as another host does, which cannot know whether their owners live."""
    here = this_process("x")
    monkeypatch.setattr(
        "launchers.storage.lock.this_process", lambda w: replace(here, token=w, place=w)
    )


def left_behind(path: Path, **change: object) -> LockOwner:
    """Leave the lock of a holder that gives no more sign."""
    fields: dict[str, Any] = {"place": "another host", **change}
    gone = replace(this_process("gone"), **fields)
    path.write_text(gone.text())
    return gone


@pytest.mark.parametrize("kind", ["silent", "of an old time", "empty", "no text"])
def test_a_holder_without_a_sign_is_taken_over_after_a_while(path: Path, kind: str) -> None:
    if kind in ("empty", "no text"):  # of a creator that was killed, or of something else
        path.write_bytes(b"\xff\xfe" if kind == "no text" else b"")
    else:
        left_behind(path)
    if kind == "of an old time":  # by a clock that runs ahead
        os.utime(path, (0, 0))
    started = time.monotonic()
    with quick(path) as lock:
        assert time.monotonic() - started >= QUICK["stale"]
        lock.check()
    assert list(path.parent.iterdir()) == []


def test_a_reused_pid_counts_as_dead(path: Path) -> None:
    left_behind(path, place=this_process("").place, started="1")
    started = time.monotonic()
    with Lock(path, "me", poll=0.01):
        assert time.monotonic() - started < 2


def test_who_is_not_known_to_have_ended_is_not_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pid 1 of another pod with our host name, and a process that could not read /proc, or that we
    cannot read: no descriptor is left, or it is another user's."""
    me, gone = this_process("x"), 2**22 + 1
    assert not lock_owner.is_dead(replace(me, place="same host name, other namespace", pid=gone))
    assert not lock_owner.is_dead(replace(me, started=""))
    monkeypatch.setattr("launchers.storage.lock_owner.read_stat", lambda pid: None)
    monkeypatch.setattr("launchers.system.proc_stat.read_stat", lambda pid: None)
    assert not lock_owner.is_dead(me) and lock_owner.is_dead(replace(me, pid=gone))
    monkeypatch.setattr("os.kill", refused)
    assert not lock_owner.is_dead(replace(me, pid=gone))


def refused(pid: int, number: int) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("token", ["../x", "a/b", "", 3])
def test_a_token_that_is_no_part_of_a_name_is_that_of_no_owner(token: object) -> None:
    text = json.dumps({**asdict(this_process("x")), "token": token})
    assert lock_owner.parse_owner(text).token == lock_owner.UNWRITTEN


@pytest.mark.parametrize("is_left_behind", [False, True])
@pytest.mark.parametrize("takers", [2, 8])
def test_of_many_takers_exactly_one_wins_at_a_time(
    path: Path, takers: int, is_left_behind: bool
) -> None:
    if is_left_behind:
        left_behind(path)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with quick(path):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    with ThreadPoolExecutor(takers) as threads:
        for _ in range(takers):
            threads.submit(work)
    assert most == [1] * takers
    assert list(path.parent.iterdir()) == []


def test_a_slow_taker_does_not_take_a_lock_that_changed_hands(path: Path) -> None:
    gone = left_behind(path)
    slow = quick(path, "slow")
    with quick(path, "quick"):
        pass  # took over from gone, and gave the lock back
    with quick(path, "third") as third:
        assert not slow._claim(successor_of(slow.path, gone.token))
        third.check()
    assert list(path.parent.iterdir()) == []


def test_of_two_takers_that_saw_the_same_dead_holder_the_later_one_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = left_behind(path)
    taken, inside = threading.Event(), threading.Event()

    def is_dead(found: LockOwner) -> bool:
        if threading.current_thread() is later and found.token == gone.token:
            taken.wait(5)  # from here on it acts on what it has seen
        return found.token == gone.token

    def work() -> None:
        with quick(path):
            inside.set()

    monkeypatch.setattr("launchers.storage.lock.is_dead", is_dead)
    later = threading.Thread(target=work)
    later.start()
    time.sleep(0.05)
    with quick(path) as lock:
        taken.set()
        assert not inside.wait(0.2)
        lock.check()
    later.join()
    assert inside.is_set()
    assert list(path.parent.iterdir()) == []


@pytest.mark.usefixtures("elsewhere")
def test_a_holder_that_slept_too_long_learns_that_it_lost(path: Path) -> None:
    sleeper = Lock(path, "sleeper", stale=0.2, beat=60, poll=0.01)
    with sleeper:
        with Lock(path, "taker", stale=0.2, beat=0.05, poll=0.01) as taker:
            with pytest.raises(LaunchError) as caught:
                sleeper.check()
            assert caught.value.code == Exit.IO
            sleeper._release()
            taker.check()
        assert not path.exists()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EEXIST])
def test_without_links_files_are_created_exclusively_and_a_link_that_is_sent_twice_is_ones_own(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def fail(*names: Path) -> None:
        if number == errno.EEXIST:
            link(*names)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fail)
    test_of_many_takers_exactly_one_wins_at_a_time(path, 8, False)
