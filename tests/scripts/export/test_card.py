"""The model card has the facts of the statement, and no others."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.export import card, statement
from scripts.export.verify import verify
from scripts.problem import Problem
from scripts.terminal import terminal
from tests.scripts.export.exports import make
from tests.scripts.export.test_tested import COMPARED

TESTED = {"problems": [], "not_compared": "", "compared": COMPARED}


def front(text: str) -> Any:
    return yaml.safe_load(text.split("---\n")[1])


def test_the_card_has_the_hubs_front_matter_and_the_runs_facts(tmp_path: Path) -> None:
    text = card.render(statement.read(make(tmp_path, tested=dict(TESTED))))
    assert front(text) == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "license": "mit",
        "base_model": "acme/base",
        "datasets": ["acme/pairs"],
        "tags": ["dpo"],
    }
    for fact in (
        "# dpo-42",
        "| steps | 7 of 7 |",
        "| loss, first and last step | 0.69 → 0.31 |",
        "| held-out pairs at step 7 | loss 0.3, accuracy 0.9, margin 1.2 |",
        "| export | 64 pairs: 2.8e-07 nats a token from the trainer's, bound 0.0001 |",
        "| chosen likelier | 45 % → 97 %: base → tuned; ",
        "| software | ms-swift 4.4.1 |",
        "| beta | 0.1 |",
    ):
        assert text.count(fact) == 1


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    text = card.render(statement.read(make(tmp_path, licence="")))
    assert "license" not in front(text) and "| export |" not in text


def test_a_written_card_belongs_to_the_export(tmp_path: Path) -> None:
    folder = make(tmp_path)
    assert card.run(folder, terminal(quiet=True), as_data=False) == 0
    assert verify(folder).findings == []
    with (folder / "README.md").open("a") as file:
        file.write("state of the art\n")
    [found] = verify(folder).findings
    assert (found.id, found.file) == ("card-differs", "README.md")
    with pytest.raises(Problem, match="is not replaced"):
        card.run(folder, terminal(quiet=True), as_data=False)
