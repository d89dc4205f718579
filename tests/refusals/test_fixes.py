"""A refusal's own remedy frees a wrong configuration of it, and changes nothing else.

`make fixes` tries all of them; here is a fixed part, one in each eight.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from scripts.fix.change import Act, Change, Remedy
from scripts.fix.files import Files
from scripts.fix.words import remedy
from tests.refusals import fixes
from tests.refusals.cases import BEFORE, load

PART = [case for case in load() if case.where in BEFORE][::8]
GOLDEN = yaml.safe_load((Path(__file__).parent / "golden" / "wordings.yaml").read_text())


def test_one_fix_frees_nearly_all_of_their_refusal_and_none_is_wrong() -> None:
    results = fixes.all_of(PART)
    assert [(each.case.name, each.wrong) for each in results if each.wrong] == []
    left = [(each.case.name, each.why) for each in results if each.outcome == fixes.LEFT]
    assert len(left) <= (1 - fixes.FIXED) * len(PART), left
    counts = Counter(each.outcome for each in results)
    assert len(PART) > 100 and min(counts[fixes.ALONE], counts[fixes.CHOSEN]) > 5


def test_a_fix_that_changes_another_value_is_wrong() -> None:
    old = Files(texts={fixes.FILE: "a: 1\nb: 2\n"})
    new = Files(texts={fixes.FILE: "a: 1\nb: 3\nc: 4\n"})
    one = Remedy(id="x", path="b", line="")
    choice = (Change(act=Act.SET, path="b", value=3),)
    assert fixes.wrong(one, choice, old, new) == "changes c too"


@pytest.mark.parametrize(("new", "is_wrong"), [("b: 2\n", False), ("b: 3\n", True)])
def test_a_fix_without_a_question_keeps_the_value(new: str, is_wrong: bool) -> None:
    old = Files(texts={fixes.FILE: 'b: "2"\n'})
    one = Remedy(id="x", path="b", line="", is_sure=True)
    choice = (Change(act=Act.SET, path="b", value=2),)
    made = fixes.wrong(one, choice, old, Files(texts={fixes.FILE: new}))
    assert bool(made) is is_wrong


def test_which_ids_are_fixed_without_a_question() -> None:
    """Each id here keeps the user's meaning: it is a form, or another name of the same."""
    sure = {id for id, line in GOLDEN.items() if (found := remedy(line)) and found.is_sure}
    assert sure == {
        "boolean-unquoted",
        "env-boolean",
        "env-list-blank",
        "flag-renamed",
        "init-container-image",
        "number-unquoted",
        "value-quoted",
    }
