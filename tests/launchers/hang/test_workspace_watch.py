import contextlib
import json
import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers import command, termination
from launchers.config.settings import from_env
from launchers.config.workspace import Workspace
from launchers.exits import Exit, FailureClass, LaunchError
from launchers.hang import workspace_watch
from launchers.hang.workspace_watch import WorkspaceWatch
from launchers.stages.attempt_record import recording

LIMIT = 0.2


class Ends(queue.Queue[LaunchError]):
    """Takes the place of the end of the process."""

    def __call__(self, error: LaunchError) -> None:
        self.put(error)

    def is_quiet(self, seconds: float) -> bool:
        with contextlib.suppress(queue.Empty):
            return self.get(timeout=seconds) is None
        return True


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let each touch of a folder wait; set it to let the workspace answer."""
    answers = threading.Event()
    monkeypatch.setattr(os, "utime", lambda *_: answers.wait())
    yield answers
    answers.set()


def test_a_workspace_without_an_answer_ends_the_launcher_as_a_storage_fault(
    tmp_path: Path, stalled: threading.Event
) -> None:
    ends = Ends()
    begun = time.monotonic()
    WorkspaceWatch(tmp_path, LIMIT, ends).resume()
    error = ends.get(timeout=10)
    assert time.monotonic() - begun >= LIMIT
    assert (error.code, error.id) == (Exit.IO, "workspace-stalled")
    assert error.failure_class == FailureClass.STORAGE


def test_what_ended_training_counts_if_it_is_known(
    tmp_path: Path, stalled: threading.Event
) -> None:
    ends = Ends()
    watch = WorkspaceWatch(tmp_path, LIMIT, ends)
    watch.resume()
    watch.note(LaunchError(Exit.CONFIG, "a flag", "correct it", id="flag-not-taken"))
    assert ends.get(timeout=10).id == "flag-not-taken"


def test_the_record_of_a_rank_that_ends_before_training_is_bounded(
    tmp_path: Path, stalled: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failed preflight: no training has begun, so the watch was at rest."""
    ends = Ends()
    monkeypatch.setattr(workspace_watch, "_watch", WorkspaceWatch(tmp_path, LIMIT, ends))
    monkeypatch.setattr(termination, "write", lambda *_: stalled.wait())
    error = LaunchError(Exit.PREFLIGHT, "a GPU", "replace it", id="preflight-gpu")
    work = Workspace(root=tmp_path, run="r")

    def ended() -> None:
        with contextlib.suppress(LaunchError), recording(work, tmp_path / "1", 1):
            raise error

    rank = threading.Thread(target=ended)
    rank.start()
    assert ends.get(timeout=10) == error and rank.is_alive()
    stalled.set()
    rank.join(10)


def test_nothing_ends_while_training_runs(tmp_path: Path, stalled: threading.Event) -> None:
    ends = Ends()
    watch = WorkspaceWatch(tmp_path, LIMIT, ends)
    watch.resume()
    watch.pause()
    assert ends.is_quiet(5 * LIMIT)
    watch.resume()
    assert ends.get(timeout=10)


def test_an_error_is_an_answer_and_so_is_a_slow_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []

    def touch(*_: object) -> None:
        time.sleep(LIMIT / 2)
        calls.append(time.monotonic())
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "utime", touch)
    ends = Ends()
    watch = WorkspaceWatch(tmp_path, LIMIT, ends)
    watch.resume()
    assert ends.is_quiet(6 * LIMIT) and len(calls) >= 2
    watch.pause()


def test_the_termination_message_does_not_wait_for_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "DPO_NODES": "1"}
    settings = from_env({**env, "DPO_TERMINATION_LOG": str(tmp_path / "message")})
    answers = threading.Event()
    monkeypatch.setattr(command, "last_step", lambda _: answers.wait())
    monkeypatch.setattr(command, "STEP_SECONDS", LIMIT)
    error = LaunchError(Exit.IO, "cause", "remedy", id="workspace-stalled")
    command._write_end(settings, error, "train")
    written = json.loads((tmp_path / "message").read_text())
    assert (written["code"], written["id"], written["step"]) == (74, "workspace-stalled", None)
    answers.set()
    monkeypatch.setattr(command, "last_step", lambda _: 7)
    command._write_end(settings, error, "train")
    assert json.loads((tmp_path / "message").read_text())["step"] == 7
