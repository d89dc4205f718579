"""The chart as Git has it: it renders without `make chart` if an image brings the launcher."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts import archive
from tests.chart.helm import ROOT, Refused, merged, template


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_a_clone_is_refused_unless_the_image_brings_the_launcher(tmp_path: Path, helm: str) -> None:
    git("checkout-index", "--all", f"--prefix={tmp_path}/")
    chart = tmp_path / "chart"
    with pytest.raises(Refused) as refused:
        template(merged(), chart=chart, helm=helm)
    found = re.findall(r"^- (\S+): .*`make chart`", str(refused.value), re.M)
    assert found == ["chart/charts/launcher-archive"]
    assert template(merged({"launcher": {"from": "image"}}), chart=chart, helm=helm)


def test_the_defaults_in_git_are_those_of_its_values() -> None:
    """Compares what is staged, since each `make` target writes the files of the checkout."""
    written = archive.defaults(git("show", ":chart/values.yaml").decode())
    staged = git("show", f":chart/{archive.DEFAULTS}").decode()
    assert staged == written, "commit it: `make chart` has written it"
