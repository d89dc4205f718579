"""Every wrong configuration is refused where its entry says, in the words that it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chart.helm import CHART
from tests.refusals.cases import BEFORE, Case, load, read
from tests.refusals.judge import Verdict, all_of

CASES = load()


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Verdict]:
    folder = tmp_path_factory.mktemp("refusals")
    return {verdict.case.name: verdict for verdict in all_of(CASES, folder)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_where_and_as_it_is_said(case: Case, verdicts: Mapping[str, Verdict]) -> None:
    verdict = verdicts[case.name]
    assert verdict.mistakes == [], verdict.text[-3000:]


def test_every_message_of_the_chart_has_a_case(verdicts: Mapping[str, Verdict]) -> None:
    folders = (CHART / "templates" / name for name in ("validate", "recipe"))
    files = [file for folder in folders for file in folder.glob("_*.tpl")]
    lines = [line for p in files for line in p.read_text().splitlines() if line.startswith("- ")]
    told = "\n".join(verdict.text for verdict in verdicts.values() if verdict.where == "chart")
    assert len(lines) > 30
    for line in lines:
        if not line.startswith(("- chart/", "- release name")):  # tests/chart/test_refusals.py
            words = re.split(r"\{\{.*?\}\}", line)
            regex = "^" + ".*".join(re.escape(word) for word in words) + "$"
            assert re.search(regex, told, re.MULTILINE), f"tests/refusals has no case of {line!r}"


def test_nine_in_ten_are_refused_before_submission(verdicts: Mapping[str, Verdict]) -> None:
    early = [verdict for verdict in verdicts.values() if verdict.where in BEFORE]
    assert len(verdicts) >= 100
    assert len(early) >= 0.9 * len(verdicts)


def test_a_verdict_tells_what_differs_from_its_case(verdicts: Mapping[str, Verdict]) -> None:
    verdict = next(v for v in verdicts.values() if v.where == "chart")
    other = Case(**{**vars(verdict.case), "where": "schema", "message": "no such words"})
    wrong = Verdict(**{**vars(verdict), "case": other}).mistakes
    assert wrong == ["refused by chart, not by schema", "'no such words' is not said"]


@pytest.mark.parametrize(
    "text, told",
    [
        ("- {case: a, values: {}, message: m, where: moon}", "'moon' is none of"),
        ("- {case: a, values: {}, message: m, where: launcher}", "a code belongs"),
        ("- {case: a, values: {}, message: m, where: chart, code: DATA}", "a code belongs"),
    ],
)
def test_an_entry_that_cannot_be_judged_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=told):
        read(file)
