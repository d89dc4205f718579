"""A refusal's own remedy frees a wrong configuration of it, and changes nothing else.

`make fixes` tries all of them; here is a fixed part, one in each eight.
"""

from pathlib import Path

import pytest

from launchers.yaml_file import read_yaml
from scripts.fix.change import Act, Change, Remedy
from scripts.fix.files import Files
from scripts.fix.words import remedy
from tests.refusals import fixes
from tests.refusals.cases import BEFORE, Case, load

PART = [case for case in load() if case.where in BEFORE][::8]
FOLDER = Path(__file__).parent / "golden"
GOLDEN = read_yaml(FOLDER / "wordings.yaml")
UNFIXED = read_yaml(FOLDER / "unfixed.yml")


@pytest.mark.parametrize("case", PART, ids=lambda case: case.name)
def test_one_fix_frees_a_case_of_its_refusal_and_changes_nothing_else(
    case: Case, tmp_path: Path
) -> None:
    found = fixes.fix(case, tmp_path)
    assert found.wrong == ""
    assert found.outcome != fixes.LEFT or case.name in UNFIXED, found.why


def test_nearly_all_cases_are_freed_by_one_fix() -> None:
    early = [case.name for case in load() if case.where in BEFORE]
    assert set(UNFIXED) <= set(early) and len(PART) > 100
    assert len(UNFIXED) <= (1 - fixes.FIXED) * len(early)


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
    names = "boolean-unquoted env-boolean env-list-blank flag-name flag-renamed number-unquoted"
    assert sure == {*names.split(), "init-container-image", "value-quoted"}
