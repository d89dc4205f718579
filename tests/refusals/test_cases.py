"""Every wrong configuration is refused where its entry says, by the id and path that it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART
from tests.refusals.cases import BEFORE, FOLDER, Case, load, read
from tests.refusals.judge import Verdict, all_of

CASES = load()
GOLDEN = FOLDER / "golden" / "wordings.yaml"
"""Name of each case to its refusals."""
ELSEWHERE = ("chart-", "release-name-", "size-", "upgrade-")
"""Ids whose cases are in tests/chart."""


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Verdict]:
    folder = tmp_path_factory.mktemp("refusals")
    return {verdict.case.name: verdict for verdict in all_of(CASES, folder)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_where_and_as_it_is_said(case: Case, verdicts: Mapping[str, Verdict]) -> None:
    verdict = verdicts[case.name]
    assert verdict.mistakes == [], verdict.text[-3000:]


def test_the_wordings_are_the_golden_ones(
    verdicts: Mapping[str, Verdict], update_golden: bool
) -> None:
    said = {name: [each.wording for each in verdict.refusals] for name, verdict in verdicts.items()}
    if update_golden:
        GOLDEN.write_text(yaml.safe_dump(said, width=10_000, allow_unicode=True), encoding="utf-8")
    assert said == yaml.safe_load(GOLDEN.read_text(encoding="utf-8")), "run `make golden`"


def test_every_message_of_the_chart_has_a_case(verdicts: Mapping[str, Verdict]) -> None:
    files = (CHART / "templates").rglob("*.tpl")
    lines = [line for p in files for line in p.read_text().splitlines() if line.startswith("- ")]
    ids = {match[1] for line in lines if (match := re.search(r" \[([a-z0-9-]+)\]$", line))}
    ids_of_chart = {each.id for v in verdicts.values() if v.where == "chart" for each in v.refusals}
    assert len(ids) > 70
    assert {id for id in ids - ids_of_chart if not id.startswith(ELSEWHERE)} == set()


def test_every_message_of_the_chart_has_an_id() -> None:
    for file in (CHART / "templates").rglob("*.tpl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if re.match(r"- [^:]+: .*; ", line):
                assert re.search(r" \[([a-z0-9-]+|\{\{ \S+ \}\})\]$", line), f"{file.name}: {line}"


def test_nine_in_ten_are_refused_before_submission(verdicts: Mapping[str, Verdict]) -> None:
    early = [verdict for verdict in verdicts.values() if verdict.where in BEFORE]
    assert len(verdicts) >= 100
    assert len(early) >= 0.9 * len(verdicts)


def test_a_verdict_names_the_difference_from_its_case(verdicts: Mapping[str, Verdict]) -> None:
    verdict = next(v for v in verdicts.values() if v.where == "chart")
    other = Case(**{**vars(verdict.case), "where": "plan", "id": "no-such"})
    wrong = Verdict(**{**vars(verdict), "case": other}).mistakes
    assert wrong[0] == "refused by chart, not by plan"
    assert wrong[1].startswith("no refusal no-such at ") and len(wrong) == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ("- {case: a, values: {}, id: i, where: moon}", "'moon' is none of"),
        ("- {case: a, values: {}, id: i, where: launcher}", "a code belongs"),
        ("- {case: a, values: {}, id: i, where: chart, code: DATA}", "a code belongs"),
    ],
)
def test_an_entry_that_cannot_be_judged_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read(file)
