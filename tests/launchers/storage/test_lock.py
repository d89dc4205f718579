import json
import os
import threading
import time
from pathlib import Path

import pytest

from launchers.storage.lock import Lock
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
