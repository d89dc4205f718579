"""A mounted workspace that gives errors: named, and the rest is shown."""

import errno
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scripts import cli
from scripts.doctor.api import Api
from tests.scripts.observe.server import Cluster
from tests.scripts.status.recorded import make_run


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


class Once:
    """Lets the first listing of a folder fail."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.failed = folder, False
        for name in ("listdir", "scandir"):
            patch.setattr(os, name, partial(self.listing, getattr(os, name)))

    def listing(self, real: Callable[..., Any], path: Any = ".") -> Any:
        if not self.failed and path == self.folder:
            self.failed = True
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return real(path)


@pytest.mark.parametrize("folder", ["runs", "runs/dpo", "runs/dpo/checkpoints"])
def test_a_run_is_not_removed_after_a_listing_that_failed(
    folder: str,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_run(workspace, "dpo", time.time())
    Once(workspace / folder, monkeypatch)
    with pytest.raises(SystemExit) as ended:
        cli.main(["clean", "dpo", "--yes", "--workspace", str(workspace)])
    said = capsys.readouterr().err
    assert (ended.value.code, str(workspace / folder) in said) == (1, True), said
    assert (workspace / "runs" / "dpo" / "progress.json").exists()


@pytest.mark.parametrize("folder", ["runs", "runs/dpo/checkpoints", "runs/dpo/attempts"])
def test_a_report_names_a_folder_that_could_not_be_listed(
    folder: str,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_run(workspace, "dpo", time.time())
    Once(workspace / folder, monkeypatch)
    run = "other" if folder == "runs" else "dpo"
    with pytest.raises(SystemExit):
        cli.main(["report", run, "-o", "json", "--source", "mount", "--workspace", str(workspace)])
    assert str(workspace / folder) in "".join(capsys.readouterr())
