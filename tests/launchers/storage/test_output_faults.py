"""Outputs that are damaged, and disks that fail."""

import errno
import json
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.storage import disk, output
from launchers.storage.lock_owner import this_process
from tests.launchers.storage.outputs import never, run, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models" / "m"


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_damaged_output_is_noticed_and_repaired(path: Path, damage: str) -> None:
    whole = run(path, writer(a="12", b="34")).digest
    if damage == "missing":
        (path / "a").unlink()
    else:
        (path / "a").write_text("1" if damage == "cut" else "13")

    def repair(folder: Path) -> None:
        assert (folder / "b").read_text() == "34"  # what is whole is there to be kept
        (folder / "a").write_text("12")

    repaired = run(path, repair)
    assert (repaired.state, repaired.digest) == ("done", whole)


def test_a_large_output_is_compared_by_sizes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(path, writer(a="12"))
    monkeypatch.setattr(output, "FULL", 1)
    (path / "a").write_text("13")
    assert run(path, never).state == "up to date"
    (path / "a").write_text("1")
    assert run(path, writer(a="12")).state == "done"


def test_who_lost_the_lock_meanwhile_puts_nothing_in(path: Path) -> None:
    def make(folder: Path) -> None:
        lock = path.with_name("m.lock")
        token = json.loads(lock.read_text())["token"]
        lock.with_name(f"m.lock.{token}").write_text(this_process("taker").text())
        (folder / "a").write_text("1")

    with pytest.raises(LaunchError) as caught:
        run(path, make)
    assert caught.value.code == Exit.IO
    assert not path.exists()


QUOTA = dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES), Exit.QUOTA)


@pytest.mark.parametrize(
    ("number", "code"), [*QUOTA.items(), (errno.EIO, Exit.IO), (errno.ESTALE, Exit.IO)]
)
def test_a_fault_of_the_disk_has_its_exit_code(path: Path, number: int, code: Exit) -> None:
    def fail(folder: Path) -> None:
        raise OSError(number, "as the kernel says", str(folder / "a"))

    with pytest.raises(LaunchError) as caught:
        run(path, fail)
    assert caught.value.code == code
    assert "m.partial/a: as the kernel says" in caught.value.cause
    assert not path.exists()


def test_an_unknown_error_is_not_dressed_up(path: Path) -> None:
    def fail(folder: Path) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        run(path, fail)


def test_too_little_space_is_reported_before_the_work_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        disk.require_space(tmp_path, 10**18)
    assert caught.value.code == Exit.QUOTA
    assert "1000000000.000 GB" in caught.value.cause


@pytest.mark.parametrize("name", ["old", "both"])
def test_a_replacement_cut_in_two_is_undone_or_finished(path: Path, name: str) -> None:
    run(path, writer(a="1"), {"v": 1})
    path.rename(output.replaced(path))
    if name == "both":
        run(path, writer(b="2"), {"v": 2})
    assert run(path, never, {"v": 2 if name == "both" else 1}).state == "up to date"


def test_a_kill_between_marker_and_rename_costs_nothing(path: Path) -> None:
    run(path, writer(a="1"))
    path.rename(output.partial_path(path))
    assert run(path, never).state == "done" and path.exists()
