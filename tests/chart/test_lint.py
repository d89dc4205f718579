"""`helm lint --strict`, in which a warning is an error, with both Helms."""

import shutil
from pathlib import Path

import pytest

from tests.chart.helm import CHART, KUBERNETES, ROOT, call, layers

FLAGS = ("--strict", "--kube-version", KUBERNETES)
VALUES = [*sorted((ROOT / "values").glob("*.yaml")), *sorted((CHART / "ci").glob("*-values.yaml"))]


@pytest.mark.parametrize("helm", ["helm", "helm3"])
@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_helm_has_nothing_to_say(file: Path, helm: str) -> None:
    done = call("lint", str(CHART), *layers(file), *FLAGS, helm=helm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[" not in done.stdout, done.stdout


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_helm_finds_what_is_planted(tmp_path: Path, helm: str) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    text = (chart / "Chart.yaml").read_text(encoding="utf-8")
    (chart / "Chart.yaml").write_text(text.replace("\nicon:", "\n# icon:"), encoding="utf-8")
    done = call("lint", str(chart), "-f", str(VALUES[0]), *FLAGS, helm=helm)
    assert "icon is recommended" in done.stdout
