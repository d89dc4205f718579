import shutil
from pathlib import Path

import pytest

from scripts import archive
from tests.chart.helm import CHART, ROOT


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy chart and launchers, so that sources can be compared while somebody edits them."""
    folder = tmp_path_factory.mktemp("checkout")
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "launchers", folder / "launchers", ignore=unwanted)
    shutil.copytree(CHART, folder / "chart")
    archive.build(folder)
    return folder / "chart"
