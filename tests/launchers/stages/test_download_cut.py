"""Downloads that are killed, stopped, or meet a full disk."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.exits import Exit
from tests.launchers.fake_hub import FakeHub
from tests.launchers.git_server import repository
from tests.launchers.sources import MODEL, ROOT, WEIGHTS, get, local_model, model_at, tree
from tests.launchers.waiting import eventually

HUBS = pytest.mark.parametrize("model", ["hf://o/m@main", "ms://o/m@master"])
SCRIPT = """
import sys
from pathlib import Path
from launchers.stages.download import download
from launchers.config.workspace import Workspace
download(sys.argv[2], (), Workspace(root=Path(sys.argv[1]), run="r"), None, skip=False, holder="t")
"""
STOPPED = (
    f"from launchers.system.process import raise_on_signals\nraise_on_signals(print)\n{SCRIPT}"
)


def begun(script: str, model: str, hub: FakeHub, work: Workspace) -> subprocess.Popen[bytes]:
    """Start a script; return once it has asked for the weights."""
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(work.root), model],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_DISABLE_XET": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert eventually(lambda: hub.gets("model.safetensors"))
    return child


@HUBS
def test_a_killed_download_continues_where_it_was(
    model: str, hub: FakeHub, work: Workspace
) -> None:
    hub.faults = {"model.safetensors": ["slow"]}
    child = begun(SCRIPT, model, hub, work)
    time.sleep(0.4)
    child.kill()
    child.wait()
    assert not model_at(model, work).exists()
    assert get(model, work)[0].state == "done"
    assert tree(model_at(model, work)) == MODEL
    assert list(work.root.rglob("*.partial")) == []


@HUBS
def test_a_stopped_download_ends_soon_and_gives_its_lock_back(
    model: str, hub: FakeHub, work: Workspace
) -> None:
    hub.repos["models/o/m"]["model.safetensors"] = bytes(3_000_000)
    hub.faults = {"model.safetensors": ["slow"] * 9}
    hub.pause = 1.0
    child = begun(STOPPED, model, hub, work)
    child.terminate()
    assert child.wait(timeout=3) != 0
    assert list(work.root.glob("*/*.lock*")) == []
    assert not model_at(model, work).exists()


ON_A_SMALL_DISK = """
import sys
from pathlib import Path
from launchers.storage import disk
from launchers.stages.clone import clone
from launchers.stages.download import download
from launchers.exits import LaunchError
from launchers.config.settings import Code
from launchers.config.workspace import Workspace
disk.require_space = lambda *_: None
work = Workspace(root=Path(sys.argv[1]), run="r")
try:
    if sys.argv[2] == "clone":
        code = Code(url=sys.argv[3], ref="main", secret=None)
        clone(code, work, skip=False, holder="t")
    else:
        download(sys.argv[3], (), work, None, skip=False, holder="t")
except LaunchError as error:
    made = work.root.glob("runs/r/code/*" if sys.argv[2] == "clone" else "*/*")
    names = [p.name for p in made if not p.name.endswith((".partial", ".lock"))]
    print(int(error.code), names, error)
"""


@pytest.mark.parametrize("what", ["hf://o/m@main", "ms://o/m@master", "file", "clone"])
def test_a_disk_that_fills_up_on_the_way_is_a_quota_error(
    what: str, hub: FakeHub, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = f'mount -t tmpfs -o size=200k tmpfs "{small}"'
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no user namespace to mount a small disk in")
    url = what
    if what == "file":
        url = f"file://{local_model(tmp_path / 'elsewhere' / 'm')}"
    if what == "clone":
        repository(tmp_path / "git", {"big": WEIGHTS.hex()})
        url = f"file://{tmp_path / 'git'}"
    words = [sys.executable, "-c", ON_A_SMALL_DISK, str(small), what, url]
    command = f"{mount} && exec {shlex.join(words)}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"{int(Exit.QUOTA)} [] "), done
