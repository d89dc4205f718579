import shutil
from pathlib import Path

import pytest

from scripts import archive
from tests.chart.helm import CHART, ROOT
from tests.chart.upgrades import reading


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy chart and launchers, so that sources can be compared while somebody edits them."""
    folder = tmp_path_factory.mktemp("checkout")
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "launchers", folder / "launchers", ignore=unwanted)
    shutil.copytree(CHART, folder / "chart")
    archive.build(folder)
    return folder / "chart"


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart whose look-up reads a file, see ``upgrades.py``."""
    return reading(tmp_path_factory.mktemp("upgrade") / "chart")
