"""One value of a values file changes; comments and all other lines stay."""

from typing import Any

import pytest

from scripts.fix import text
from scripts.fix.text import NotEdited, Path

FILE = """\
# The gang.
nodes: "2"  # two hosts
recipe:
  # what is trained
  args:
    lr: 5e-6
    learning_rate: 1e-6   # of another trainer
    note: |
      two
      lines
  dataset: hf://org/data@main
tolerations: [{key: a}, {key: b, effect: NoSchedule}]
extraVolumes:
  - name: cache  # fast
    emptyDir: {}
  - name: logs
empty: {}
last:
"""

CACHE = "  - name: cache  # fast\n    emptyDir: {}\n"
RATE = "    learning_rate: 1e-6   # of another trainer\n"


@pytest.mark.parametrize(
    "path, value, old, new",
    [
        (("nodes",), 2, 'nodes: "2"  # two hosts', "nodes: 2  # two hosts"),
        (("recipe", "args", "lr"), "a: b", "lr: 5e-6", "lr: 'a: b'"),
        (
            ("recipe", "dataset"),
            ["hf://org/data@main"],
            "dataset: hf://org/data@main",
            "dataset: ['hf://org/data@main']",
        ),
        (("recipe", "args", "note"), "one", "note: |\n      two\n      lines\n", "note: one\n"),
        (("tolerations", 1, "effect"), "", "effect: NoSchedule", "effect: ''"),
        (("tolerations", 0, "value"), "x", "[{key: a}", "[{key: a, value: x}"),
        (("extraVolumes",), [], f"extraVolumes:\n{CACHE}  - name: logs\n", "extraVolumes: []\n"),
        (("empty", "a", "b"), 1, "empty: {}", "empty: {a: {b: 1}}"),
        (("last",), True, "last:\n", "last: true\n"),
        (("kueue", "queue"), "a", "last:\n", "last:\nkueue:\n  queue: a\n"),
        (("recipe", "task"), "sft", "@main\n", "@main\n  task: sft\n"),
        (("recipe", "args"), {"beta": 0.1, "lr": 1}, "lr: 5e-6\n", "lr: 1\n"),
    ],
)  # fmt: skip
def test_a_value_is_set_where_it_is(path: Path, value: Any, old: str, new: str) -> None:
    made = text.set_value(FILE, path, value)
    if path == ("recipe", "args"):
        made = made.replace("    beta: 0.1\n", "")
    assert made == FILE.replace(old, new, 1)


@pytest.mark.parametrize(
    "path, old, new",
    [
        (("nodes",), 'nodes: "2"  # two hosts\n', ""),
        (("recipe", "args", "learning_rate"), RATE, ""),
        (("recipe", "args", "note"), "    note: |\n      two\n      lines\n", ""),
        (("tolerations", 0), "{key: a}, ", ""),
        (("tolerations", 1), ", {key: b, effect: NoSchedule}", ""),
        (("tolerations", 1, "key"), "key: b, ", ""),
        (("extraVolumes", 0), CACHE, ""),
        (("extraVolumes", 1, "name"), "- name: logs", "- {}"),
        (("extraVolumes", 0, "name"), "name: cache  # fast\n    emptyDir", "emptyDir"),
    ],
)  # fmt: skip
def test_a_value_is_removed_with_its_line(path: Path, old: str, new: str) -> None:
    assert text.remove(FILE, path) == FILE.replace(old, new, 1)


def test_a_key_behind_a_question_mark_is_removed() -> None:
    assert text.remove("a: 1\n? ''\n: 2\n", ("",)) == "a: 1\n"


def test_a_key_is_renamed_with_its_comment_and_no_name_is_given_twice() -> None:
    made = text.rename(FILE, ("recipe", "args", "learning_rate"), "beta")
    assert made == FILE.replace("learning_rate: 1e-6 ", "beta: 1e-6 ")
    with pytest.raises(NotEdited, match="learning_rate cannot be changed in this file"):
        text.rename(FILE, ("recipe", "args", "learning_rate"), "lr")


@pytest.mark.parametrize("written, value", [("1234567", "1234567"), ("1e3", "1e3"), ("010", "010")])
def test_a_number_is_quoted_as_it_is_written(written: str, value: str) -> None:
    made = text.quote(f"ref: {written}  # commit\n", ("ref",))
    assert text.read(made) == {"ref": value}
    assert made.endswith("  # commit\n")


def test_a_text_that_would_change_elsewhere_too_is_left_alone() -> None:
    with pytest.raises(NotEdited):
        text.set_value("a: &x {b: 1}\nc: *x\n", ("a", "b"), 2)
    with pytest.raises(NotEdited):
        text.remove("a: 1\rb: {c: 1}\r", ("b",))


def test_line_breaks_of_windows_stay_and_an_empty_file_gets_its_first_value() -> None:
    made = text.set_value("a:\r\n  b: 1\r\n", ("a", "c"), 2)
    assert made == "a:\r\n  b: 1\r\n  c: 2\r\n"
    assert text.set_value("# nothing yet\n", ("a", "b"), 1) == "# nothing yet\na:\n  b: 1\n"
