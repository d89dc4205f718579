import errno
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from launchers.exits import Exit, LaunchError
from launchers.preflight import pod_checks, probes
from launchers.storage import disk, manifest, marker, node_disk, output
from launchers.storage.lock_owner import this_process
from launchers.storage.output import Made, produce
from launchers.system import lookup
from scripts.helm import ROOT
from tests.launchers.storage.outputs import failing, never, run, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "models" / "m"


def leftovers(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p.name != path.name)


def test_an_output_is_made_once(path: Path) -> None:
    first = run(path, writer(a="1"))
    second = run(path, never)
    assert (first.state, second.state) == ("done", "up to date")
    assert first.digest == second.digest != ""
    assert sorted(p.name for p in path.iterdir()) == [marker.NAME, "a"]
    assert leftovers(path) == []


def test_inputs_compare_as_they_read_back(path: Path) -> None:
    run(path, writer(a="1"), {"flags": ("x", "y")})
    assert run(path, never, {"flags": ["x", "y"]}).state == "up to date"


def test_other_inputs_replace_the_output_only_once_the_new_one_is_complete(path: Path) -> None:
    run(path, writer(a="1"), {"v": 1})

    def make(folder: Path) -> None:
        assert (path / "a").read_text() == "1"
        (folder / "b").write_text("2")

    with pytest.raises(LaunchError):
        run(path, failing(), {"v": 2})
    assert (path / "a").read_text() == "1"
    assert run(path, make, {"v": 2}).state == "done"
    assert sorted(p.name for p in path.iterdir()) == [marker.NAME, "b"]
    assert leftovers(path) == []


def test_a_failure_leaves_nothing_under_the_final_name_and_the_next_continues(path: Path) -> None:
    with pytest.raises(LaunchError):
        run(path, failing(a="half"))
    assert not path.exists()

    def go_on(folder: Path) -> None:
        assert (folder / "a").read_text() == "half"
        (folder / "a").write_text("whole")

    run(path, go_on)
    assert sorted(p.name for p in path.iterdir()) == [marker.NAME, "a"]
    with pytest.raises(LaunchError):
        run(path, failing(old="half"), {"v": 2})
    run(path, writer(new="1"), {"v": 3})  # not gone on with: its inputs are others
    assert sorted(p.name for p in path.iterdir()) == [marker.NAME, "new"]


def test_skip_trusts_what_is_there_and_keeps_the_digest_of_a_marker(path: Path) -> None:
    path.mkdir(parents=True)
    outcome = run(path, never, skip=True)
    assert (outcome.state, outcome.why, outcome.digest) == ("skipped", "SKIP_DOWNLOAD=1", "")
    path.rmdir()
    made = run(path, writer(a="1"))
    assert run(path, never, {"v": 2}, skip=True).digest == made.digest


def test_skip_of_what_is_not_there_names_the_setting_and_the_place(path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        run(path, never, skip=True)
    refusal = (caught.value.code, caught.value.id)
    assert refusal == (Exit.INPUT_MISSING, "skipped-output-missing")
    assert caught.value.cause.startswith(f"SKIP_DOWNLOAD=1, but {path}")
    assert "stages.download.skip: false" in caught.value.remedy


def test_what_make_has_verified_is_not_read_again(path: Path) -> None:
    def make(folder: Path) -> Made:
        (folder / "a").write_text("1")
        (folder / "cache").write_text("not part of it")
        return Made(manifest={"a": manifest.entry(folder / "a")}, notes={"commit": "c0ffee"})

    run(path, make)
    there = marker.read(path)
    assert there is not None and list(there.manifest) == ["a"]
    assert there.made["commit"] == "c0ffee"


def test_what_make_says_is_checked(path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        run(path, lambda folder: Made(manifest={"a": manifest.Entry(1, "x")}))
    assert caught.value.code == Exit.IO
    assert not path.exists()


@pytest.mark.parametrize("is_torn", [False, True])
def test_what_is_left_of_a_cache_is_made_again(path: Path, is_torn: bool) -> None:
    cache = partial(produce, "tokens", "m", path, {"v": 1}, skip=False, holder="t", is_cache=True)
    first = cache(writer(a="1"))
    (path / marker.NAME).write_text("{") if is_torn else (path / marker.NAME).unlink()
    again = cache(writer(a="1"))
    assert (again.state, again.digest) == ("done", first.digest)
    assert leftovers(path) == []


@pytest.mark.parametrize(("stage", "skip"), [("download", True), ("export", False)])
def test_the_users_own_files_under_the_final_name_are_kept_and_only_a_stage_is_skipped(
    path: Path, stage: str, skip: bool
) -> None:
    path.mkdir(parents=True)
    (path / "mine").write_text("1")
    with pytest.raises(LaunchError) as no:
        produce(stage, "m", path, {}, never, skip=False, holder="t")
    assert no.value.code == Exit.CONFIG and (path / "mine").read_text() == "1"
    assert (f"stages.{stage}.skip: true" in no.value.remedy) == skip
    assert "remove it" in no.value.remedy


@pytest.mark.parametrize(
    "file", ["m.old/a", "m.partial/mine", "m/mine", "m/config.json", "m/torn", "m/.complete.json/a"]
)
def test_what_a_user_has_stored_next_to_an_output_or_in_it_is_kept(path: Path, file: str) -> None:
    run(path, writer(**{"config.json": "{}"}))
    if file.startswith("m/."):
        (path / marker.NAME).unlink()
    elif file == "m/torn":
        (path / marker.NAME).write_text("{")
    mine = path.parent / file
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    inputs: dict[str, object] = {"v": 1 if file == "m/config.json" else 2}
    assert run(path, writer(**{"config.json": "{}"}), inputs).state == "done"
    assert "mine" in {each.read_text() for each in path.parent.rglob("*") if each.is_file()}


def test_a_file_behind_a_link_to_another_volume_is_kept_and_no_bytecode(path: Path) -> None:
    run(path, writer(a="1"))
    with TemporaryDirectory(dir="/dev/shm") as volume:
        path.symlink_to(shutil.move(path, volume))
        (path / "code" / "__pycache__").mkdir(parents=True)
        for name in ("code/mine", "code/__pycache__/mine.pyc"):
            (path / name).touch()
        assert run(path, writer(a="1"), {"v": 2}).state == "done"
    assert [each.name for each in path.parent.glob("m.kept-*/**/*") if each.is_file()] == ["mine"]


def test_a_file_where_a_folder_is_needed_is_the_users_and_a_link_to_nothing_unknown(
    tmp_path: Path,
) -> None:
    (tmp_path / "models").touch()
    (tmp_path / "data").symlink_to(tmp_path / "away")
    for name, id in (("models", "disk-not-folder"), ("data", lookup.ID)):
        with pytest.raises(LaunchError) as refused:
            run(tmp_path / name / "m", never)
        assert refused.value.id == id


def test_a_link_to_a_volume_that_is_not_mounted_is_no_missing_output(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(path.parent / "away")
    with pytest.raises(LaunchError) as unknown:
        run(path, never)
    assert (unknown.value.code, unknown.value.id) == (Exit.IO, "output-link-broken")


PRODUCER = """
import sys, time
from pathlib import Path
from launchers.storage.output import produce
def make(folder):
    for number in range(12):
        (folder / f"{number}.txt").write_text("x")
        time.sleep(0.03)
made = produce("test", "x", Path(sys.argv[1]), {"v": 1}, make, skip=False, holder="producer")
print(made.state, made.digest, sep="|")
"""


def test_of_two_producers_one_makes_and_the_other_finds_it(path: Path) -> None:
    words = [sys.executable, "-c", PRODUCER, str(path)]
    both = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [each.communicate(timeout=30)[0].splitlines()[-1].split("|") for each in both]
    assert sorted(state for state, _ in ends) == ["done", "up to date"]
    assert ends[0][1] == ends[1][1] != ""


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "torn marker", "torn note"])
def test_a_damaged_output_is_noticed_and_repaired_and_read_twice(
    path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once before the lock is free, and once under it; what has a torn note is not deleted."""
    whole = run(path, writer(a="12", **{"b.bin": "34"})).digest
    if damage == "missing":
        (path / "a").unlink()
    elif not damage.startswith("torn"):
        (path / "a").write_text("1" if damage == "cut" else "13")
    else:
        (path / marker.NAME).write_text("")
    if damage == "torn note":
        (path / marker.NAME).rename(path / output.RECORD)
        path.rename(output.partial_path(path))

    def repair(folder: Path) -> None:
        assert (folder / "b.bin").read_text() == "34"  # what is whole is there to be kept
        (folder / "a").write_text("12")

    def verify(folder: Path, listed: manifest.Manifest, full: bool) -> list[str]:
        reads.append(full)
        return real(folder, listed, full)

    reads, real = list[bool](), manifest.verify
    with monkeypatch.context() as patched:
        patched.setattr(manifest, "verify", verify)
        repaired = output.produce(
            "download", "m", path, {"v": 1}, repair, skip=False, holder="t", verifies=True
        )
    assert (repaired.state, repaired.digest) == ("done", whole) and sum(reads) <= 2


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


def test_a_file_system_that_states_no_size_is_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.statvfs", lambda _: os.statvfs_result((512, 512, *[0] * 7, 255)))
    disk.require_space(tmp_path, 10**18)
    assert probes.free(tmp_path / "new") is None and pod_checks.disk(None, 10**18).state == "ok"
    assert node_disk.has_room(tmp_path, 900, 0) and not node_disk.has_room(tmp_path, 901, 1000)


def test_bytes_that_are_not_read_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lstat(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    (tmp_path / "a").write_text("12")
    assert disk.held(tmp_path) == disk.size(tmp_path) == 2
    monkeypatch.setattr(Path, "lstat", lstat)
    with lookup.within(0.0), pytest.raises(LaunchError) as unknown:
        disk.held(tmp_path)
    assert unknown.value.id == lookup.ID


@pytest.mark.parametrize("has_new", [False, True])
def test_a_replacement_cut_in_two_is_undone_or_finished(path: Path, has_new: bool) -> None:
    run(path, writer(a="1"))
    path.rename(output.replaced(path))
    if has_new:
        shutil.copytree(output.replaced(path), path)
    assert run(path, never).state == "up to date"
    assert not output.replaced(path).exists()


def test_a_kill_between_marker_and_rename_costs_nothing(path: Path) -> None:
    run(path, writer(a="1"))
    (path / output.RECORD).write_text("{}")
    path.rename(output.partial_path(path))
    assert run(path, never).state == "done" and path.exists()
    assert not (path / output.RECORD).exists()


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_two_may_remove_one_folder(
    path: Path, is_stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that stays listed while it is gone ends the removal."""

    def unlink(name: str, **given: int) -> None:
        if not gone or is_stubborn:
            gone.append(name)
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        real(name, **given)

    gone, real = list[str](), os.unlink
    run(path, writer(a="1", b="2"))
    monkeypatch.setattr(os, "unlink", unlink)
    if is_stubborn:
        with pytest.raises(FileNotFoundError):
            disk.remove(path)
    else:
        disk.remove(path)
    assert path.exists() == is_stubborn
