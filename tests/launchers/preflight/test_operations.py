"""What the workspace's file system can do: yes, no, or no answer."""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.preflight import probes
from launchers.preflight.pod_checks import file_system
from launchers.storage.lock_owner import this_process
from launchers.system import lookup


def refusing(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_local_disk_has_all_operations_and_keeps_only_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    found = probes.operations(tmp_path)
    assert found == {"lock": 0, "hard link": 0, "rename": 0}
    assert list(tmp_path.iterdir()) == [tmp_path / "moved"]
    assert [each.state for each in file_system(found, True)] == ["ok"]


def test_what_killed_preflights_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    me = this_process("preflight")
    owners = {"ended": replace(me, pid=2**22 + 1), "elsewhere": replace(me, place="x"), "runs": me}
    owners["old"] = owners["elsewhere"]
    for name, owner in owners.items():
        (tmp_path / f".probe-{name}").mkdir()
        (tmp_path / f".probe-{name}" / probes.OWNER).write_text(owner.text())
    (tmp_path / ".probe-mine").mkdir()
    (tmp_path / ".probe-mine" / probes.OWNER).write_text("mine")
    (tmp_path / ".probe-link").symlink_to(tmp_path / ".probe-runs")
    for old in ("old", "mine"):
        os.utime(tmp_path / f".probe-{old}", (0, 0))
    probes.operations(tmp_path)
    left = {path.name.removeprefix(".probe-") for path in tmp_path.iterdir()}
    assert left == {"elsewhere", "runs", "mine", "link"}


@pytest.mark.parametrize(
    ("owner", "call", "number", "name", "state"),
    [
        (os, "link", errno.EOPNOTSUPP, "hard link", "warning"),
        (fcntl, "flock", errno.ENOLCK, "lock", "failed"),
        (fcntl, "flock", errno.ENOSYS, "lock", "warning"),
        (Path, "rename", errno.EMFILE, "rename", "failed"),
    ],
)
def test_what_is_needed_is_refused_and_the_rest_warned_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    call: str,
    number: int,
    name: str,
    state: str,
) -> None:
    monkeypatch.setattr(owner, call, refusing(number))
    found = probes.operations(tmp_path / "p")
    assert found[name] == number and sum(map(bool, found.values())) == 1
    (judged,) = file_system(found, True)
    code = Exit.CONFIG if state == "failed" else Exit.PREFLIGHT
    assert (judged.state, judged.code) == (state, code)
    assert errno.errorcode[number] in judged.seen and judged.remedy
    assert not list((tmp_path / "p").iterdir())


def test_caches_elsewhere_need_no_lock_of_the_workspace() -> None:
    assert file_system({"lock": errno.ENOLCK}, False)[0].state == "warning"


def test_a_file_system_that_does_not_answer_is_no_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "SECONDS", 0.2)
    monkeypatch.setattr(os, "link", refusing(errno.EIO))
    with pytest.raises(LaunchError, match="EIO") as raised:
        probes.operations(tmp_path / "p")
    assert (raised.value.code, raised.value.id) == (Exit.IO, lookup.ID)


def test_a_file_system_that_hangs_ends_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "OPERATIONS_SECONDS", 0.2)
    monkeypatch.setattr(os, "link", lambda *_: time.sleep(3))
    began = time.monotonic()
    with pytest.raises(LaunchError, match="no answer") as raised:
        probes.operations(tmp_path / "p")
    assert raised.value.code == Exit.IO and time.monotonic() - began < 2


def test_an_answer_that_was_lost_counts_as_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link
    lost: list[int] = []

    def once(source: Path, target: Path) -> None:
        link(source, target)
        if not lost:
            lost.append(1)
            raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "link", once)
    assert probes.operations(tmp_path / "p")["hard link"] == 0
