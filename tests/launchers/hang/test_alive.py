"""The launcher's own heartbeat: renewed while it runs, and no reason to end it by itself."""

from pathlib import Path

import pytest

from launchers.hang import alive
from tests.launchers.waiting import eventually


def test_the_file_is_renewed_and_left_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alive, "BEAT_SECONDS", 0.01)
    file = tmp_path / "alive"
    with alive.beating(file):
        file.write_text("0.00\n")
        assert eventually(lambda: float(file.read_text()) > 0)
        beat = float(file.read_text())
        assert 0 <= float(alive.UPTIME.read_text().split()[0]) - beat < 5


def test_without_a_file_nothing_happens(tmp_path: Path) -> None:
    with alive.beating(None):
        pass
    with alive.beating(tmp_path / "missing" / "alive"):
        assert not list(tmp_path.iterdir())
