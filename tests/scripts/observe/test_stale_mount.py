"""A mounted workspace that gives errors: each read fails once, is named, and decides nothing."""

import errno
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.errno_matrix import Seam
from tests.scripts.calling import Call
from tests.scripts.status.recorded import make_run

CALLS = ("stat", "open", "scandir")
VERBS = {
    "list": ("list", "--json"),
    "status": ("status", "dpo", "--json"),
    "report": ("report", "dpo", "-o", "md", "--source", "mount"),
    "logs": ("logs", "dpo", "--source", "mount"),
    "clean": ("clean", "old", "--yes"),
}


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS)
def test_what_is_not_read_is_named_and_decides_nothing(
    words: Sequence[str],
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Call,
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    make_run(workspace, "dpo", now)
    old = make_run(workspace, "old", now)
    (old / "progress.json").write_text('{"state": "succeeded"}')
    (old / "export").mkdir()
    (old / "export" / "model.safetensors").write_bytes(b"weights")
    whole = shutil.copytree(workspace, tmp_path / "whole")
    seam, asked = Seam(workspace), (*words, "--workspace", str(workspace))
    with seam.patched():
        normal = call(*asked)
    assert normal.code == 0, normal.err
    cells = {path: kind for kind in CALLS for path in seam.seen[kind] if "removing" not in path}
    assert len(cells) > 10
    for path, kind in cells.items():
        if not old.exists():
            shutil.copytree(whole, workspace, dirs_exist_ok=True)
        fault = Seam(workspace)
        fault.call, fault.path, fault.number, fault.left = kind, path, errno.EIO, 1
        with fault.patched():
            ended = call(*asked)
        if ended != normal:
            assert os.strerror(errno.EIO) in ended.out + ended.err, (kind, path, ended)
            assert (old / "export" / "model.safetensors").exists(), (kind, path)
