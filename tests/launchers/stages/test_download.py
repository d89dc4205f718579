"""The download stage against a small hub, with the real clients of both hubs."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launchers.config.sources import parse_source
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.stages.download import download
from launchers.storage import marker, output
from tests.launchers.fake_hub import COMMIT, FakeHub
from tests.launchers.git_server import repository
from tests.launchers.pods import Pods
from tests.launchers.sources import (
    CANARY,
    MODEL,
    PAIRS,
    ROOT,
    WEIGHTS,
    get,
    local_model,
    model_at,
    refused,
    tree,
)
from tests.launchers.waiting import eventually

HUBS = pytest.mark.parametrize("model", ["hf://o/m@main", "ms://o/m@master"])


@HUBS
def test_a_model_is_fetched_verified_and_found_again_without_the_hub(
    model: str, hub: FakeHub, work: Workspace
) -> None:
    (first,) = get(model, work)
    assert first.state == "done"
    assert tree(model_at(model, work)) == MODEL
    assert sorted(p.name for p in first.path.iterdir()) == [marker.NAME, "m"]
    asked = len(hub.seen)
    (second,) = get(model, work)
    assert (second.state, second.digest) == ("up to date", first.digest)
    assert len(hub.seen) == asked


def test_the_marker_remembers_the_commit(hub: FakeHub, work: Workspace) -> None:
    (outcome,) = get("hf://o/m@main", work)
    there = marker.read(outcome.path)
    assert there is not None and there.made["commit"] == COMMIT
    assert there.inputs == {"source": "hf://o/m@main"}
    resolved = [s for s in hub.seen if "/resolve/" in s]
    assert resolved and all(f"/resolve/{COMMIT}/" in s for s in resolved)


@pytest.mark.parametrize("dataset", ["hf://o/d@main", "ms://o/d@master"])
def test_a_dataset_is_a_folder_or_the_file_that_is_named(
    dataset: str, hub: FakeHub, work: Workspace
) -> None:
    def got(part: str = "") -> Path:
        return get("hf://o/m@main", work, dataset + part)[1].path

    assert tree(got() / "d") == {"data/pairs.jsonl": PAIRS}
    one = got("/data/pairs.jsonl#5")
    assert (one / "pairs.jsonl").read_bytes() == PAIRS
    assert sorted(p.name for p in one.iterdir()) == [marker.NAME, "pairs.jsonl"]
    assert tree(got("/data") / "data") == {"pairs.jsonl": PAIRS}


def test_data_in_the_clone_only_has_to_exist(tmp_path: Path, work: Workspace) -> None:
    there = local_model(work.root / "mine" / "m")
    (tmp_path / "clone" / "data").mkdir(parents=True)
    (tmp_path / "clone" / "data" / "x.jsonl").write_bytes(PAIRS)
    urls = (f"file://{there}", ("data/x.jsonl",), work, tmp_path / "clone")
    outcome = download(*urls, skip=False, holder="t")[1]
    assert (outcome.state, outcome.why, outcome.digest) == ("up to date", "in the clone", "")
    with pytest.raises(LaunchError) as caught:
        download(urls[0], ("data/y.jsonl",), work, tmp_path / "clone", skip=True, holder="t")
    assert caught.value.code == Exit.INPUT_MISSING


def test_skip_trusts_and_checks_that_it_is_there(hub: FakeHub, work: Workspace) -> None:
    with pytest.raises(LaunchError) as caught:
        get("hf://o/m@main", work, skip=True)
    assert caught.value.code == Exit.INPUT_MISSING
    assert str(model_at("hf://o/m@main", work)) in caught.value.cause
    local_model(model_at("hf://o/m@main", work))
    outcome = get("hf://o/m@main", work, skip=True)[0]
    assert (outcome.state, outcome.why) == ("skipped", "SKIP_DOWNLOAD=1")
    assert hub.seen == []


def test_a_bad_source_is_refused_before_anything_is_fetched(hub: FakeHub, work: Workspace) -> None:
    error = refused("hf://o/m@main", work, "s3://bucket/x")
    assert error.code == Exit.CONFIG and "recipe.dataset[0]" in error.cause
    assert hub.seen == []


def test_a_partial_folder_is_not_taken_for_an_output(hub: FakeHub, work: Workspace) -> None:
    hub.faults = {"model.safetensors": ["401"]}
    assert refused("hf://o/m@main", work).code == Exit.AUTH
    home = work.model(parse_source("hf://o/m@main", "recipe.model").slug)
    assert output.partial_path(home).exists() and not home.exists()


def test_data_that_git_lfs_did_not_fetch_is_bad_data(work: Workspace) -> None:
    there = local_model(work.root / "mine" / "m")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
    (work.root / "clone").mkdir()
    (work.root / "clone" / "x.parquet").write_text(pointer)
    with pytest.raises(LaunchError, match="git-lfs pointer") as caught:
        urls = (f"file://{there}", ("x.parquet",), work, work.root / "clone")
        download(*urls, skip=False, holder="t")
    assert caught.value.code == Exit.DATA


@pytest.mark.parametrize(
    ("fault", "code"), [("401", Exit.AUTH), ("none", Exit.INPUT_MISSING), ("wrong", Exit.IO)]
)
def test_a_command_ends_with_the_code_and_one_line_and_no_traceback(
    fault: str, code: Exit, hub: FakeHub, tmp_path: Path
) -> None:
    hub.token = CANARY if fault == "401" else ""
    hub.faults = {"model.safetensors": ["wrong"] * 9}
    name = "none" if fault == "none" else "m"
    pods = Pods(tmp_path)
    pods.write_recipe(model=f"hf://o/{name}@main")
    env = pods.env(0, HF_ENDPOINT=hub.url, HOME=str(tmp_path))
    words = [sys.executable, "-m", "launchers", "download"]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == code
    last = done.stdout.strip().splitlines()[-1]
    assert f"ERROR rank=0 run ended code={int(code)} stage=download cause=" in last
    assert " remedy=" in last and "Traceback" not in done.stdout + done.stderr


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
