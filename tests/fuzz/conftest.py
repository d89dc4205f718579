"""One renderer for all tests of this folder, and a chart without the launcher's code."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart import test_crd
from tests.chart.helm import KUBERNETES, stubbed
from tests.chart.renderer import PROGRAM, Renderer, start
from tests.chart.test_kubeconform import KINDS, core


@pytest.fixture(scope="session")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Renderer]:
    if not PROGRAM.exists() or shutil.which("go") is None:
        pytest.skip("no .tools/cluster/bin/renderer, or no go for the schemas: `make setup`")
    folder = tmp_path_factory.mktemp("schemas")
    kinds = {kind: core(group, kind) for group, kind in KINDS.values()}
    for kind, schema in {**kinds, "JobSet": test_crd.schema()}.items():
        (folder / f"{kind}.json").write_text(json.dumps(schema), encoding="utf-8")
    with start(KUBERNETES, folder) as running:
        yield running


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the chart with a stub of the archive, which would cost most of the time."""
    return stubbed(tmp_path_factory.mktemp("fuzz") / "chart")
