"""Questions to a file system that does not answer at once, or not at all."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.system import lookup


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(lookup, "monotonic", lambda: self.now)
        monkeypatch.setattr(lookup, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def failing(times: float) -> Callable[[], str]:
    left = [times]

    def ask() -> str:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(errno.ESTALE, "Stale file handle")
        return "yes"

    return ask


def test_an_error_that_passes_is_asked_again(clock: Clock) -> None:
    assert lookup.certain(failing(5), Path("/w")) == "yes"
    assert 100 < clock.now < 100 + lookup.SECONDS


def test_an_error_that_stays_ends_as_one_of_the_storage(clock: Clock) -> None:
    with pytest.raises(LaunchError) as caught:
        lookup.certain(failing(1e9), Path("/w/marker"))
    assert (caught.value.code, caught.value.id) == (Exit.IO, lookup.ID)
    assert clock.now == pytest.approx(100 + lookup.SECONDS)
    for word in (socket.gethostname(), "/w/marker", "Stale file handle", "ESTALE"):
        assert word in caught.value.cause


def test_a_caller_that_must_not_wait_limits_all_its_questions_together(clock: Clock) -> None:
    with lookup.within(3):
        for _ in range(4):
            with pytest.raises(LaunchError):
                lookup.certain(failing(1e9), Path("/w"))
    assert clock.now == pytest.approx(103)
    assert lookup.certain(failing(5), Path("/w")) == "yes"


def test_what_is_missing_or_of_another_kind_is_answered_at_once(
    tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "nothing", tmp_path / "file" / "below"):
        assert not lookup.exists(path) and lookup.text(path) is None and not lookup.entries(path)
    assert lookup.data(tmp_path) is None and not lookup.entries(tmp_path / "file")
    assert clock.now == 100


def test_a_link_is_one_and_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    assert lookup.entries(tmp_path) == {"folder": True, "link": False}
    assert lookup.is_link(tmp_path / "link") and not lookup.is_link(tmp_path / "folder")
    assert lookup.is_dir(tmp_path / "link") and not lookup.is_file(tmp_path / "link")
    assert lookup.matching(tmp_path, "l*") == [tmp_path / "link"]


def test_a_folder_that_cannot_be_listed_is_not_empty(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(path: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", stale)
    with pytest.raises(LaunchError, match="EACCES.*let the launcher's user read it"):
        lookup.matching(tmp_path, "*")
