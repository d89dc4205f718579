"""A mounted workspace that gives errors: named, and the rest is shown."""

import errno
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.calling import Call
from tests.scripts.status.recorded import make_run


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("stale", ["", "runs/dpo"])
def test_a_list_names_a_stale_workspace_and_shows_the_runs_of_the_cluster(
    stale: str, workspace: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def failing(real: Callable[..., Any], place: Path | None) -> Callable[..., Any]:
        def act(path: str | Path = ".", **options: bool) -> Any:
            if Path(path) == place:
                raise OSError(errno.ESTALE, "Stale file handle", str(path))
            return real(path, **options)

        return act

    monkeypatch.setattr(Path, "stat", failing(Path.stat, None if stale else workspace))
    monkeypatch.setattr("os.listdir", failing(os.listdir, workspace / stale))
    ended = call("list", "--json", "--workspace", str(workspace))
    assert (ended.code, [each["run"] for each in ended.document["runs"]]) == (0, ["dpo"])
    notes = " ".join(ended.document["notes"])
    assert "Stale file handle" in notes and str(workspace) in notes


class Once:
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
    folder: str, workspace: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    make_run(workspace, "dpo", time.time())
    Once(workspace / folder, monkeypatch)
    code, _, said = call("clean", "dpo", "--yes", "--workspace", str(workspace))
    assert (code, str(workspace / folder) in said) == (1, True), said
    assert (workspace / "runs" / "dpo" / "progress.json").exists()


@pytest.mark.parametrize("folder", ["runs", "runs/dpo/checkpoints", "runs/dpo/attempts"])
def test_a_report_names_a_folder_that_could_not_be_listed(
    folder: str, workspace: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    make_run(workspace, "dpo", time.time())
    Once(workspace / folder, monkeypatch)
    run = "other" if folder == "runs" else "dpo"
    place = ("--source", "mount", "--workspace", str(workspace))
    _, out, err = call("report", run, "-o", "json", *place)
    assert str(workspace / folder) in out + err
