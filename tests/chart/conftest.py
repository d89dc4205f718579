"""Fixtures of the chart's tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chart.helm import CHART, ROOT


@pytest.fixture(scope="session")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy chart and launchers, link included: comparing sources bears no edit meanwhile."""
    folder = tmp_path_factory.mktemp("checkout")
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "launchers", folder / "launchers", ignore=unwanted)
    shutil.copytree(CHART, folder / "chart", symlinks=True)
    return folder / "chart"
