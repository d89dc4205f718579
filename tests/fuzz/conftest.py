"""One renderer for all tests of this folder, and a chart without the launcher's code."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import archive
from tests.chart import test_crd, test_kubeconform
from tests.chart.helm import CHART, KUBERNETES
from tests.chart.renderer import PROGRAM, Renderer, start


@pytest.fixture(scope="session")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Renderer]:
    if not PROGRAM.exists() or shutil.which("go") is None:
        pytest.skip("no .tools/cluster/bin/renderer, or no go for the schemas: `make setup`")
    folder = tmp_path_factory.mktemp("schemas")
    kinds = {kind: test_kubeconform.core(group, kind) for group, kind in _kinds()}
    for kind, schema in {**kinds, "JobSet": test_crd.schema()}.items():
        (folder / f"{kind}.json").write_text(json.dumps(schema), encoding="utf-8")
    with start(KUBERNETES, folder) as running:
        yield running


def _kinds() -> list[tuple[str, str]]:
    return list(test_kubeconform.KINDS.values())


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the chart with a stub of the archive, which would cost most of the time."""
    folder = tmp_path_factory.mktemp("fuzz") / "chart"
    shutil.copytree(CHART, folder)
    for place in archive.PLACES:
        (folder / place).write_bytes(b"stub")
    return folder
