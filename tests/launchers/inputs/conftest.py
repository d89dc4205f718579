"""A model's folder that every check accepts."""

from pathlib import Path

import pytest

from tests.launchers import model_folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_folder.write(tmp_path / "m")
