"""A mounted workspace that gives errors: named, and the rest is shown."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from scripts import cli
from scripts.doctor.api import Api
from tests.scripts.observe.server import Cluster


@pytest.mark.parametrize("stale", ["", "runs/dpo"])
def test_a_list_names_a_stale_workspace_and_shows_the_runs_of_the_cluster(
    stale: str,
    api: Api,
    cluster: Cluster,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = workspace / stale
    asked, listed = Path.stat, os.listdir

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path == gone == workspace:
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return asked(path, **options)

    def names(path: str | Path = ".") -> list[str]:
        if Path(path) == gone:
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr("os.listdir", names)
    with pytest.raises(SystemExit) as ended:
        cli.main(["list", "--json", "--workspace", str(workspace)])
    found = json.loads(capsys.readouterr().out)
    assert (ended.value.code, [each["run"] for each in found["runs"]]) == (0, ["dpo"])
    notes = " ".join(found["notes"])
    assert "Stale file handle" in notes and str(workspace) in notes
