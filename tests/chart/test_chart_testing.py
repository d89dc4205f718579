"""`ct lint`, as charts are linted in the field, with ct.yaml; `ct install` is in tests/e2e."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.chart import ct
from tests.chart.helm import CHART, ROOT, require
from tests.e2e.cluster import modules

TOOL = ROOT / "tests" / "e2e" / "tools" / "ct"
FILES = sorted((CHART / "ci").glob("*-values.yaml"))

pytestmark = pytest.mark.skipif(
    not ct.PROGRAM.exists() or shutil.which("go") is None,
    reason="no .tools/cluster/bin/ct, or no go for its schemas: `make test-chart` builds it",
)


def lint(checkout: Path, folder: Path) -> ct.Done:
    """Run `ct lint` with its own rules, and the yamllint and yamale of the tests."""
    etc = modules.folder("github.com/helm/chart-testing/v3", TOOL) / "etc"
    schema, conf = etc / "chart_schema.yaml", etc / "lintconf.yaml"
    own = Path(sys.executable).parent
    tools = [Path(require("helm")), own / "yamale", own / "yamllint"]
    words = ["lint", f"--chart-yaml-schema={schema}", f"--lint-conf={conf}"]
    return ct.run(words, checkout=checkout, tools=tools, folder=folder, env=os.environ, seconds=110)


@pytest.fixture
def checkout(frozen: Path, tmp_path: Path) -> Path:
    """Return a folder with the chart and ct.yaml that a test may change."""
    folder = shutil.copytree(frozen.parent, tmp_path / "checkout")
    shutil.copy(ROOT / "ct.yaml", folder)
    return folder


def test_ct_is_content_with_the_chart_and_all_its_values(tmp_path: Path) -> None:
    done = lint(ROOT, tmp_path)
    assert done.code == 0, done.output
    assert "All charts linted successfully" in done.output
    assert FILES
    for file in FILES:
        assert f'with values file "{file.relative_to(ROOT)}"' in done.output


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("Chart.yaml", "oops: 1\n", "oops: Unexpected element"),
        ("values.yaml", "nodes: 3\n", "duplication of key"),
        ("ci/zz-values.yaml", "nodes: three\n", "nodes"),
    ],
)
def test_ct_finds_what_is_planted(
    checkout: Path, tmp_path: Path, name: str, text: str, expected: str
) -> None:
    file = checkout / "chart" / name
    file.parent.mkdir(exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)
    done = lint(checkout, tmp_path / "tools")
    assert done.code == 1
    assert expected in done.tools
