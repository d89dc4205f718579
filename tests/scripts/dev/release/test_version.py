"""Chart and launcher have one version, and a release sets it wherever it stands."""

import re
from pathlib import Path

import pytest
import yaml

from scripts.dev.release import version
from scripts.helm import ROOT
from scripts.problem import Problem
from tests.scripts.dev.release import checkouts

CHART = yaml.safe_load((ROOT / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
DATE = "2026-12-24"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return checkouts.made(tmp_path / "checkout", filled=True)


@pytest.mark.parametrize(
    "text", ["1", "1.2", "01x", "v1.2.3", "1.2.3-beta.1", "1.2.3-rc1", "1.2.3+a"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="not a version"):
        version.parse(text)


def test_a_lower_version_is_refused() -> None:
    with pytest.raises(Problem, match="below"):
        version.places(ROOT, "0.0.9", DATE)


def test_a_version_is_set_wherever_it_stands(checkout: Path) -> None:
    old = version.current(checkout)
    for path, text in version.places(checkout, "0.2.0-rc.1", DATE).items():
        path.write_text(text, encoding="utf-8")
    assert version.places(checkout, "0.2.0-rc.1", "2027-01-01") == {}
    chart = yaml.safe_load((checkout / "chart" / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == "0.2.0-rc.1"
    assert chart["annotations"]["artifacthub.io/prerelease"] == "true"
    changes = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    assert {entry["kind"] for entry in changes} <= {"added", "changed", "fixed"} and changes
    number = re.escape(old)
    anywhere = rf"megatron-dpo-{number}\b|^version\W+{number}\b|launcher {number}\b"
    for path in checkout.rglob("*.*"):
        if path.suffix in (".yaml", ".toml", ".txt"):
            assert not re.search(anywhere, path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_artifact_hub_has_the_default_image_and_the_charts_maintainers_and_icon() -> None:
    values = yaml.safe_load((ROOT / "chart" / "values.yaml").read_text(encoding="utf-8"))
    [image] = yaml.safe_load(CHART["annotations"]["artifacthub.io/images"])
    assert image["image"] == f"{values['image']['repository']}:{values['image']['tag']}"
    metadata = yaml.safe_load((ROOT / "chart" / "artifacthub-repo.yml").read_text("utf-8"))
    assert metadata["owners"] == CHART["maintainers"]
    assert CHART["icon"].endswith("/icon.svg") and (ROOT / "chart" / "icon.svg").is_file()
