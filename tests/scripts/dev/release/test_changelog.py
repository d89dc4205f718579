"""CHANGELOG.md is read strictly, and holds what the chart announces."""

import pytest
import yaml

from scripts.dev.release import changelog
from scripts.helm import ROOT
from scripts.problem import Problem

TEXT = """\
# Changelog

## [Unreleased]

### Fixed
- A long entry
  on two lines.

## [0.1.0] - 2026-01-01

### Added
- First.
"""


def test_entries_have_the_kind_of_their_heading() -> None:
    latest, first = changelog.sections(TEXT)
    assert latest.changes == (changelog.Change("Fixed", "A long entry on two lines."),)
    assert (first.date, first.changes) == ("2026-01-01", (changelog.Change("Added", "First."),))


def test_a_release_takes_what_is_unreleased() -> None:
    text = changelog.released(TEXT, "0.2.0", "2026-02-02")
    wanted = {"Unreleased": "", "0.2.0": "2026-02-02", "0.1.0": "2026-01-01"}
    assert [(s.name, s.date) for s in changelog.sections(text)] == [*wanted.items()]
    found = changelog.section(text, "0.2.0")
    assert found is not None and found.changes[0].kind == "Fixed"
    assert changelog.released(text, "0.2.0", "2027-01-01") == text


def test_a_version_is_released_once() -> None:
    with pytest.raises(Problem, match="choose a higher version"):
        changelog.released(TEXT, "0.1.0", "2026-02-02")


@pytest.mark.parametrize("body", ["", "### Fixed\n", "### Repaired\n- It.\n", "- No heading.\n"])
def test_nothing_to_release_is_refused(body: str) -> None:
    text = f"# Changelog\n\n## [Unreleased]\n\n{body}"
    with pytest.raises(Problem, match="CHANGELOG.md"):
        changelog.released(text, "0.2.0", "2026-02-02")


def test_our_own_is_complete() -> None:
    found = changelog.sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert found[0].name == changelog.UNRELEASED and not found[0].date
    assert all(each.date and each.changes for each in found[1:])
    chart = yaml.safe_load((ROOT / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    assert found[1].name == chart["version"]
    announced = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    wanted = [{"kind": c.kind.lower(), "description": c.text} for c in found[1].changes]
    assert announced == wanted
