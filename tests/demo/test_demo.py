"""Decisions of the demo: current sources, failures, files that it may remove."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from scripts.demo import command as demo
from scripts.demo import sources
from scripts.demo.score import accuracy, margin
from scripts.demo.sources import Sources
from scripts.problem import Problem
from scripts.report.columns import Points
from scripts.report.record import RunRecord


def test_a_model_that_has_not_learned_fails_the_demo() -> None:
    console = Console(quiet=True)
    assert demo.verdict(0.95, console) == 0
    assert demo.verdict(0.9499, console) == 1


def test_an_equal_probability_is_not_a_preference() -> None:
    assert accuracy([-1.0, -2.0], [-1.0, -3.0]) == 0.5


def test_the_margin_of_the_base_model_is_zero() -> None:
    base = [[-3.0, -4.0], [-5.0, -1.0]]
    assert margin(base, base) == 0.0


def test_sources_are_current_until_what_they_were_made_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Sources(root=tmp_path)
    assert not sources.is_current(made)
    sources.seal(made)
    assert sources.is_current(made)
    values = tmp_path / "values.yaml"
    values.write_text("nodes: 2\n")
    monkeypatch.setattr(sources, "VALUES", values)
    assert not sources.is_current(made)


def test_the_code_repository_has_the_same_commit_every_time(tmp_path: Path) -> None:
    first = sources.make_code(Sources(root=tmp_path / "a"))
    assert first == sources.make_code(Sources(root=tmp_path / "b"))
    assert (tmp_path / "a" / "code" / sources.PLUGIN.name).exists()


def test_a_folder_that_holds_something_else_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(Problem, match="so nothing is removed"):
        demo.clean(tmp_path, Console(quiet=True))
    assert (tmp_path / "thesis.tex").exists()


def test_cleaning_removes_the_whole_folder_and_may_be_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "sources").mkdir(parents=True)
    for _ in range(2):
        demo.clean(folder, Console(quiet=True))
        assert not folder.exists()


def test_the_table_shows_before_and_after() -> None:
    loss = Points(steps=(1, 100), means=(0.6931, 0.25), recorded=2)
    record = RunRecord(name="demo", place="", curves={"loss": loss}, step=100, total=100)
    console = Console(width=120)
    with console.capture() as captured:
        score = {"accuracy_before": 0.5, "accuracy_after": 0.975, "margin_after": 4.25}
        console.print(demo.table(record, score))
    _, *rows = (re.split(" {2,}", line.strip()) for line in captured.get().splitlines())
    assert rows == [
        ["accuracy on held-out pairs", "0.500", "0.975"],
        ["reward margin on the same", "0.000", "4.250"],
        ["training loss", "0.693", "0.250"],
    ]


def test_the_scores_beta_is_that_of_the_values() -> None:
    assert demo.beta() == 0.3
