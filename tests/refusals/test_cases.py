"""Every wrong configuration is refused where its entry says, by the id and path that it says."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.chart.helm import CHART
from tests.fuzz.verdict import with_forms
from tests.refusals import page
from tests.refusals.cases import BEFORE, Case, load, read
from tests.refusals.judge import Verdict, judge

CASES = load()
FIRST = {case.id: case.name for case in reversed(CASES)}
"""The case of each id whose wording is golden."""
ELSEWHERE = ("chart-", "release-name-", "size-", "upgrade-")
"""Ids whose cases are in tests/chart."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_where_and_as_it_is_said(
    case: Case, tmp_path: Path, wordings: dict[str, str], update_golden: bool
) -> None:
    verdict = judge(case, tmp_path)
    assert verdict.mistakes == [], verdict.text[-3000:]
    said = [each.wording for each in verdict.refusals if each.id == case.id]
    assert with_forms("\n".join(said), case.values) == []
    if FIRST[case.id] == case.name:
        if update_golden:
            wordings[case.id] = said[0]
        assert said[0] == wordings.get(case.id), "run `make golden`"


def test_the_golden_wordings_are_of_these_cases(wordings: Mapping[str, str]) -> None:
    assert set(wordings) == {case.id for case in CASES}


def test_every_message_of_the_chart_has_a_case() -> None:
    files = CHART.rglob("*.tpl")
    lines = [line for p in files for line in p.read_text().splitlines() if line.startswith("- ")]
    ids = {match[1] for line in lines if (match := re.search(r" \[([a-z0-9-]+)\]$", line))}
    by_chart = [case for case in CASES if case.where == "chart"]
    ids_of_chart = {id for case in by_chart for id in (case.id, *case.also)}
    assert len(ids) > 30
    assert {id for id in ids - ids_of_chart if not id.startswith(ELSEWHERE)} == set()


def test_every_message_of_the_chart_has_an_id() -> None:
    for file in CHART.rglob("*.tpl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if re.match(r"- [^:]+: .*; ", line):
                assert re.search(r" \[([a-z0-9-]+|\{\{ \S+ \}\})\]$", line), f"{file.name}: {line}"


def test_nine_in_ten_are_refused_before_submission() -> None:
    early = [case for case in CASES if case.where in BEFORE]
    assert len(CASES) >= 100
    assert len(early) >= 0.9 * len(CASES)


def test_the_page_has_each_id_by_the_place_that_refuses_it(update_golden: bool) -> None:
    written = page.text(CASES)
    if update_golden:
        page.FILE.write_text(written, encoding="utf-8")
    assert page.FILE.read_text(encoding="utf-8") == written, "run `make golden`"


def test_a_verdict_names_the_difference_from_its_case(tmp_path: Path) -> None:
    verdict = judge(next(case for case in CASES if case.where == "chart"), tmp_path)
    other = Case(**{**vars(verdict.case), "where": "plan", "id": "no-such"})
    wrong = Verdict(**{**vars(verdict), "case": other}).mistakes
    assert wrong[0] == "refused by chart, not by plan"
    assert wrong[1].startswith("no refusal no-such at ") and len(wrong) == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ("moon: [{case: a, values: {}, id: i}]", "'moon' is none of"),
        ("launcher: [{case: a, values: {}, id: i}]", "a code belongs"),
        ("chart: [{case: a, values: {}, id: i, code: DATA}]", "a code belongs"),
    ],
)
def test_an_entry_that_cannot_be_judged_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read(file)
