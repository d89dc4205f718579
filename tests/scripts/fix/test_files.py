"""The file that a value comes from is edited, and only if nobody else has changed it."""

from pathlib import Path
from typing import Any

import pytest

from scripts.fix.change import Act, Change
from scripts.fix.files import Files
from scripts.fix.text import NotEdited
from scripts.problem import Problem

FIRST = "nodes: 1  # first\na: {b: 1}\n"
SECOND = "nodes: 2  # second\n"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    paths = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
    for path, text in zip(paths, (FIRST, SECOND), strict=True):
        path.write_text(text)
    return Files.read(paths)


def changed(files: Files, act: Act, path: str, value: Any = None) -> list[str]:
    return list(files.changed(Change(act=act, path=path, value=value)).texts.values())


def test_the_last_file_that_has_a_value_is_edited(files: Files) -> None:
    assert changed(files, Act.SET, "nodes", 3) == [FIRST, "nodes: 3  # second\n"]
    assert changed(files, Act.SET, "a.b", 2) == ["nodes: 1  # first\na: {b: 2}\n", SECOND]


def test_a_new_value_is_in_the_last_file(files: Files) -> None:
    assert changed(files, Act.SET, "kueue.queue", "q")[1] == SECOND + "kueue:\n  queue: q\n"


def test_what_an_earlier_file_has_too_is_removed_by_null(files: Files) -> None:
    assert changed(files, Act.REMOVE, "nodes") == [FIRST, "nodes: null  # second\n"]
    assert changed(files, Act.REMOVE, "a") == ["nodes: 1  # first\n", SECOND]


def test_a_value_moves_to_another_level(files: Files) -> None:
    made = changed(files, Act.MOVE, "a.b", "c.d")
    assert made == ["nodes: 1  # first\na: {}\nc:\n  d: 1\n", SECOND]


def test_a_move_overwrites_no_value(files: Files) -> None:
    with pytest.raises(NotEdited, match="nodes is set too"):
        changed(files, Act.MOVE, "a.b", "nodes")


def test_an_assignment_of_the_command_is_not_edited(files: Files) -> None:
    given = Files(texts=files.texts, sets=["a.b=3"])
    with pytest.raises(NotEdited, match="--set gives a.b; change it there"):
        changed(given, Act.SET, "a.b", 2)


def test_a_value_that_no_file_has_is_not_removed(files: Files) -> None:
    with pytest.raises(NotEdited, match="a.c is in none of the files"):
        changed(files, Act.REMOVE, "a.c")


def test_files_are_written_with_their_permissions(files: Files) -> None:
    first, second = files.texts
    second.chmod(0o640)
    made = files.changed(Change(act=Act.SET, path="nodes", value=3))
    assert made.write(files) == [second]
    assert second.read_text() == "nodes: 3  # second\n" and first.read_text() == FIRST
    assert second.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in second.parent.iterdir()) == ["first.yaml", "second.yaml"]


def test_a_file_that_has_changed_since_is_left_as_it_is(files: Files) -> None:
    _, second = files.texts
    made = files.changed(Change(act=Act.SET, path="nodes", value=3))
    second.write_text("nodes: 4\n")
    with pytest.raises(Problem, match="has changed since it was planned; nothing was written"):
        made.write(files)
    assert second.read_text() == "nodes: 4\n"


def test_without_a_file_there_is_nothing_to_change() -> None:
    with pytest.raises(Problem, match="give one with -f FILE"):
        Files.read([])
