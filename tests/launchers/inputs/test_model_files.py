from __future__ import annotations

from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.inputs import model_files


@pytest.mark.parametrize(
    "config, reported",
    [
        (None, "o/m has no config.json"),
        ("{broken", "o/m: config.json is not JSON"),
        ("[]", "config.json has no model_type"),
        ("{}", "config.json has no model_type"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(
    tmp_path: Path, config: str | None, reported: str
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(LaunchError, match=reported) as no:
        model_files.check_folder(tmp_path, "o/m")
    assert no.value.code == Exit.DATA


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("x")
    with pytest.raises(LaunchError, match="is a file, not a folder"):
        model_files.check_folder(tmp_path / "model.safetensors", "o/m")


def test_a_model_passes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    model_files.check_folder(tmp_path, "o/m")
