"""clean RUN: exactly the named folders, nothing behind a link, no checkpoint that may be needed.

A guard lets every change of a file outside the test's folder fail.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from launchers.state import contents
from launchers.state.contents import RefusedError, chosen, remove
from scripts.control import cleaning
from scripts.observe.command import Target
from tests.scripts.calling import Call


@pytest.fixture(autouse=True)
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let `unlink`, `rmdir` and `rename` fail outside of the test's folder; note what they got."""
    seen: list[str] = []

    def guarded(act: Callable[..., None]) -> Callable[..., None]:
        def call(path: Any, *more: Any, **named: Any) -> None:
            at = named.get("dir_fd", named.get("src_dir_fd"))
            folder = Path() if at is None else Path(f"/proc/self/fd/{at}").readlink()
            whole = folder / os.fsdecode(path)
            place = whole.parent.resolve() / whole.name
            assert place.is_relative_to(tmp_path.resolve()), f"outside of the test: {place}"
            seen.append(str(place))
            act(path, *more, **named)

        return call

    for name in ("unlink", "remove", "rmdir", "rename"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    yield seen
    monkeypatch.undo()


def plant(
    root: Path, name: str, state: str = "succeeded", *, export: bool = True, step: int | None = 20
) -> Path:
    home = root / "runs" / name
    (home / "attempts" / "1").mkdir(parents=True)
    (home / "attempts" / "1" / "node-0.log").write_text("log")
    (home / "progress.json").write_text(json.dumps({"state": state}))
    if export:
        (home / "export").mkdir()
        (home / "export" / "model.safetensors").write_text("weights")
    if step is not None:
        folder = home / "checkpoints" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "x.distcp").write_text("state")
        manifest = {"step": step, "files": {"x.distcp": 5}}
        (folder / "COMPLETE.json").write_text(json.dumps(manifest))
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    for name in ("dpo-41", "dpo-42", "dpo-42-b"):
        plant(root, name)
    (root / "models").mkdir()
    (root / "models" / "m").write_text("model")
    return root


def names(root: Path) -> list[str]:
    return sorted(each.name for each in (root / "runs").iterdir())


def test_exactly_the_named_folder_is_removed(root: Path, guard: list[str]) -> None:
    remove(root, "dpo-42")
    assert names(root) == ["dpo-41", "dpo-42-b"]
    assert (root / "models" / "m").read_text() == "model"
    assert any("model.safetensors" in each for each in guard)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../models", "runs/dpo-42", "dpo-42/", "a\0b", "a..b", "*", "-rf", "A"]
)
def test_only_one_path_component_is_a_name(root: Path, guard: list[str], name: str) -> None:
    with pytest.raises(RefusedError, match="not the name of a run"):
        remove(root, name)
    assert names(root) == ["dpo-41", "dpo-42", "dpo-42-b"] and guard == []


def test_nothing_behind_a_link_is_touched(tmp_path: Path, root: Path) -> None:
    other = plant(tmp_path / "other", "dpo-9")
    inside = root / "runs" / "dpo-42"
    (inside / "link").symlink_to(other)
    (inside / "attempts" / "link.log").symlink_to(other / "progress.json")
    (root / "runs" / "dpo-7").symlink_to(other)
    with pytest.raises(RefusedError, match="no such run"):
        remove(root, "dpo-7")
    remove(root, "dpo-42")
    assert (other / "progress.json").is_file() and (other / "export").is_dir()
    assert names(root) == ["dpo-41", "dpo-42-b", "dpo-7"]


def test_runs_that_is_a_link_is_refused(tmp_path: Path, root: Path) -> None:
    link = tmp_path / "second"
    link.mkdir()
    (link / "runs").symlink_to(root / "runs")
    with pytest.raises(RefusedError, match="not removed"):
        remove(link, "dpo-42")
    assert names(root) == ["dpo-41", "dpo-42", "dpo-42-b"]


def test_a_folder_that_becomes_a_link_is_not_followed(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = plant(tmp_path / "other", "dpo-9")
    home = root / "runs" / "dpo-42"

    def swapped(workspace: Path, given: list[str]) -> list[Any]:
        home.rename(root / "runs" / "aside")
        home.symlink_to(other)
        return []

    monkeypatch.setattr(contents, "chosen", swapped)
    with pytest.raises(RefusedError, match="not removed"):
        remove(root, "dpo-42")
    assert (other / "export" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("state", "export"), [("failed", False), ("running", True), ("succeeded", False), ("", True)]
)
@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("", "", "may resume from checkpoint-20"),
        ("COMPLETE.json", '{"step": 2', "may resume is not known: checkpoint-20/COMPLETE.json"),
        ("PENDING.json", '{"ranks": [{"sizes": {}}]}', "may resume is not known: step 20 is on"),
        (
            "COMPLETE.json",
            '{"step": 20, "files": {"x.distcp": 5}, "run": "b", "inputs": {"recipe": "b"}}',
            "may resume is not known: checkpoint-20: it is of run b",
        ),
    ],
)
def test_a_run_that_may_resume_keeps_its_checkpoint(
    root: Path, state: str, export: bool, file: str, content: str, why: str
) -> None:
    saved = plant(root, "dpo-1", state, export=export) / "checkpoints" / "checkpoint-20"
    if file:
        (saved.parents[1] / "inputs.json").write_text('{"recipe": "a"}')
        (saved / "COMPLETE.json").unlink()
        (saved / file).write_text(content)
    with pytest.raises(RefusedError, match=why):
        remove(root, "dpo-1")
    assert "dpo-1" in names(root)


def test_a_checkpoint_whose_folder_gives_an_error_is_not_taken_for_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.name == "checkpoint-20":
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return real(path, **options)

    real = Path.stat
    plant(root, "dpo-1", "failed")
    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(RefusedError, match="may resume is not known: .*Stale file handle"):
        remove(root, "dpo-1")
    assert "dpo-1" in names(root)


def test_a_failed_run_without_a_checkpoint_is_removed(root: Path) -> None:
    plant(root, "dpo-1", "failed", export=False, step=None)
    remove(root, "dpo-1")
    assert "dpo-1" not in names(root)


def test_a_run_that_is_led_and_a_folder_that_is_no_run_are_refused(root: Path) -> None:
    (root / "runs" / "dpo-42" / "run.lock.0123").write_text("{}")
    (root / "runs" / "data").mkdir()
    for name, why in (("dpo-42", "launcher leads it"), ("data", "not known to be a run")):
        with pytest.raises(RefusedError, match=why):
            remove(root, name)


def test_one_refusal_keeps_all(root: Path) -> None:
    plant(root, "dpo-1", "failed", export=False)
    why = "dpo-1: may resume.*dpo-8: the workspace has no such run"
    with pytest.raises(RefusedError, match=why):
        chosen(root, ["dpo-42", "dpo-1", "dpo-8"])


def test_an_interrupted_removal_is_finished_by_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            remove(root, "dpo-42")
    assert names(root) == [".dpo-42.removing", "dpo-41", "dpo-42-b"]
    left = {each["run"]: each for each in contents.inventory(root)}
    assert (left["dpo-42"]["state"], left["dpo-42"]["bytes"]["export"]) == ("removing", 7)
    remove(root, "dpo-42")
    assert names(root) == ["dpo-41", "dpo-42-b"]


def test_what_an_interrupted_removal_left_goes_with_a_new_run_of_the_name(root: Path) -> None:
    (root / "runs" / "dpo-42").rename(root / "runs" / ".dpo-42.removing")
    plant(root, "dpo-42")
    (found,) = chosen(root, ["dpo-42"])
    assert found["state"] == "succeeded"
    remove(root, "dpo-42")
    assert names(root) == ["dpo-41", "dpo-42-b"]


def _interrupted(path: str, *, dir_fd: int) -> None:
    raise KeyboardInterrupt


_interrupted.avoids_symlink_attacks = True  # type: ignore[attr-defined]


def test_it_says_what_it_removes_and_asks(root: Path) -> None:
    console = Console(width=400)
    asked: list[str] = []

    def ask(text: str) -> bool:
        asked.append(text)
        return False

    with console.capture() as captured:
        target = Target(run="dpo-42", workspace=root)
        assert cleaning.remove(target, ["dpo-42"], console, ask) != 0
    text = captured.get()
    assert asked == ["Continue?"]
    assert str(root / "runs" / "dpo-42") in text and "all checkpoints and exports" in text
    assert "dpo-42" in names(root)


def test_the_verb_needs_a_yes(root: Path, call: Call) -> None:
    place = ("--workspace", str(root))
    assert call("clean", "dpo-42", *place).code != 0 and "dpo-42" in names(root)
    ended = call("clean", "dpo-42", "dpo-41", *place, "--yes")
    assert ended.code == 0, ended
    assert names(root) == ["dpo-42-b"]
    ended = call("clean", "dpo-42-b", *place, "--json")
    assert ended.code != 0 and "use --yes" in ended.document["why"], "nothing is asked then"
    removed = call("clean", "dpo-42-b", *place, "--json", "--yes").document["removed"]
    assert removed == ["dpo-42-b"]


@pytest.mark.parametrize("files", [3, "x", ["x.distcp"], None])
def test_a_manifest_of_another_form_is_of_no_complete_checkpoint(root: Path, files: object) -> None:
    folder = root / "runs" / "dpo-42" / "checkpoints" / "checkpoint-20"
    (folder / "COMPLETE.json").write_text(json.dumps({"step": 20, "files": files}))
    (found,) = chosen(root, ["dpo-42"])
    assert found["newest"] is None


def test_what_a_user_edited_and_the_launcher_renamed_is_listed(root: Path) -> None:
    home = root / "runs" / "dpo-41"
    for folder in (home / "export.kept-17", home / "checkpoints" / "checkpoint-20.kept-18"):
        folder.mkdir()
        (folder / "model.safetensors").write_text("edited")
    [found] = (each for each in contents.inventory(root) if each["run"] == "dpo-41")
    assert found["kept"] == [
        {"path": "export.kept-17", "bytes": 6},
        {"path": "checkpoints/checkpoint-20.kept-18", "bytes": 6},
    ]
    console = Console(width=100)
    with console.capture() as shown:
        cleaning.show([cleaning.Held(**found)], console)
    assert "dpo-41 holds export.kept-17, 6 B" in shown.get()
