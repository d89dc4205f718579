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


@pytest.mark.parametrize(
    ("act", "path", "value", "first", "second"),
    [
        (Act.SET, "nodes", 3, FIRST, "nodes: 3  # second\n"),
        (Act.SET, "a.b", 2, "nodes: 1  # first\na: {b: 2}\n", SECOND),
        (Act.SET, "kueue.queue", "q", FIRST, SECOND + "kueue:\n  queue: q\n"),
        (Act.REMOVE, "nodes", None, FIRST, "nodes: null  # second\n"),
        (Act.REMOVE, "a", None, "nodes: 1  # first\n", SECOND),
        (Act.MOVE, "a.b", "c.d", "nodes: 1  # first\na: {}\nc:\n  d: 1\n", SECOND),
    ],
    ids=["last file", "only file", "new", "null hides the first", "only one", "another level"],
)
def test_the_last_file_that_has_a_value_is_edited(
    files: Files, act: Act, path: str, value: Any, first: str, second: str
) -> None:
    assert changed(files, act, path, value) == [first, second]


@pytest.mark.parametrize(
    ("act", "path", "value", "why"),
    [
        (Act.MOVE, "a.b", "nodes", "nodes is set too"),
        (Act.SET, "a.b", 2, "--set gives a.b; change it there"),
        (Act.REMOVE, "a.c", None, "a.c is in none of the files"),
    ],
    ids=["a value there", "an assignment of the command", "no value"],
)
def test_what_is_not_edited_says_why(
    files: Files, act: Act, path: str, value: Any, why: str
) -> None:
    given = Files(texts=files.texts, sets=["a.b=3"] if act is Act.SET else [])
    with pytest.raises(NotEdited, match=why):
        changed(given, act, path, value)


def test_files_are_written_with_their_permissions(files: Files) -> None:
    first, second = files.texts
    second.chmod(0o640)
    made = files.changed(Change(act=Act.SET, path="nodes", value=3))
    assert made.write(files) == [second]
    assert second.read_text() == "nodes: 3  # second\n" and first.read_text() == FIRST
    assert second.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in second.parent.iterdir()) == ["first.yaml", "second.yaml"]


def test_without_a_file_there_is_nothing_to_change() -> None:
    with pytest.raises(Problem, match="give one with -f FILE"):
        Files.read([])
