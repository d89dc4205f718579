"""Trackers: one id over all attempts, and a library that fails never ends training.

The tests with the real libraries run them in processes of the training environment, wandb and
swanlab from ``.tools/trackers``. A proxy on loopback that refuses all shows that none of
them asks for another machine. The other tests use a library of this file.
"""

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from launchers.stop import uncaught
from launchers.training import trackers
from scripts.helm import ROOT
from tests.launchers.loopback import Silent, http_server
from tests.launchers.training_environment import PYTHON, needs_training

TRACKERS = ROOT / ".tools" / "trackers"
real = pytest.mark.skipif(
    not (TRACKERS / "wandb").exists(), reason="no .tools/trackers: run `make setup`"
)
CLOSED = "http://127.0.0.1:1"


class Library(types.ModuleType):
    """A tracker's library whose ``init`` fails in the given modes."""

    def __init__(self, *, fails: tuple[str | None, ...] = ()) -> None:
        super().__init__("wandb")
        self.fails, self.teardowns = fails, 0
        self.calls: list[dict[str, Any]] = []
        self.log: Any = None

    def init(self, **named: Any) -> str:
        self.calls.append(named)
        if named.get("mode") in self.fails:
            raise ConnectionError("https://key@host")
        self.log = self.broken
        return "run"

    def teardown(self) -> None:
        self.teardowns += 1

    def broken(self, row: object, step: int) -> None:
        raise BrokenPipeError("the service has ended")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "runs" / "dpo-42"
    home.mkdir(parents=True)
    monkeypatch.setenv("DPO_RUN_FOLDER", str(home))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setattr(trackers, "_end_in_time", lambda: None)
    return home


def started(library: Library, monkeypatch: pytest.MonkeyPatch, **env: str) -> Any:
    """Install the feature and let ms-swift start its writer."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "wandb", library)
    trackers.install_wandb()
    return library.init(name="/w/checkpoints", project="megatron-swift", config={"lr": 1})


def test_every_attempt_has_the_runs_name_and_one_id(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    for _ in range(2):
        library = Library()
        assert started(library, monkeypatch, WANDB_PROJECT="mine") == "run"
        calls += library.calls
    assert calls[0] == calls[1]
    assert calls[0]["id"] == (home / trackers.ID).read_text()
    assert len(calls[0]["id"]) == 20 and calls[0]["id"].isalnum()
    wanted = {"name": "dpo-42", "project": "mine", "resume": "allow", "config": {"lr": 1}}
    assert {key: calls[0][key] for key in wanted} == wanted


def test_a_removed_folder_begins_another_curve(home: Path) -> None:
    first = trackers.run_id(home)
    (home / trackers.ID).unlink()
    assert trackers.run_id(home) != first


def test_a_tracker_out_of_reach_writes_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = Library(fails=(None,))
    assert started(library, monkeypatch) == "run"
    assert [each.get("mode") for each in library.calls] == [None, "offline"]
    assert library.calls[0]["id"] == library.calls[1]["id"]
    assert library.teardowns == 1
    printed = capsys.readouterr().out
    assert "wandb start failed cause=ConnectionError" in printed and "key@" not in printed


def test_a_tracker_that_cannot_write_files_is_switched_off(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(fails=(None, "offline"))
    assert started(library, monkeypatch) == "run" and library.calls[-1]["mode"] == "disabled"


def test_an_error_of_a_row_does_not_end_training(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = Library()
    started(library, monkeypatch)
    library.log({"train/loss": 1.0}, step=1)
    assert "wandb log failed cause=BrokenPipeError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("installed", "rank", "reports"),
    [
        ("startup_megatron", "3", True),
        ("startup_megatron", "0", False),
        ("startup_transformers", "0", True),
        ("startup_transformers", "3", False),
    ],
)
def test_only_the_rank_that_reports_keeps_the_key(
    home: Path, monkeypatch: pytest.MonkeyPatch, installed: str, rank: str, reports: bool
) -> None:
    monkeypatch.setattr(trackers, "INSTALLED", [installed])
    monkeypatch.setattr(uncaught, "_State", uncaught._State())
    monkeypatch.setattr(sys, "addaudithook", lambda hook: None)  # it would stay
    uncaught.install()
    library = Library()
    plain = library.init
    started(library, monkeypatch, RANK=rank, WORLD_SIZE="4", WANDB_API_KEY="k")
    assert (library.init != plain) == reports
    assert uncaught.is_installed() != reports  # only an upload needs Python's end
    assert ("WANDB_API_KEY" in os.environ) == reports


@pytest.mark.parametrize(("last", "code"), [("", 0), ("raise ValueError", 1)])
def test_an_upload_that_never_ends_does_not_hold_the_process(last: str, code: int) -> None:
    program = f"""
import atexit, time
from launchers.training import trackers
trackers.FINISH_SECONDS = 0.5
atexit.register(time.sleep, 600)
trackers._end_in_time()
{last}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT)
    assert done.returncode == code


class Proxy(NamedTuple):
    """An HTTP proxy that refuses all: the variables by which programs take it, and their hosts."""

    env: dict[str, str]
    asked: list[str]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    asked: list[str] = []

    class Refusal(Silent):
        def _refuse(self) -> None:
            asked.append(self.path)
            self.send_error(403)

        do_CONNECT = do_GET = do_POST = do_PUT = _refuse

    with http_server(Refusal) as url:
        yield Proxy({f"{kind}_PROXY": url for kind in ("HTTP", "HTTPS", "ALL")}, asked)


@real
@pytest.mark.parametrize("library", ["wandb", "swanlab"])
def test_a_restarted_run_appends_to_the_same_run(
    tmp_path: Path, library: str, proxy: Proxy
) -> None:
    env = {f"{library.upper()}_MODE": "offline", **proxy.env}
    found = [attempt(tmp_path, library, first, env) for first in (1, 4)]
    assert found[0]["id"] == found[1]["id"]
    assert found[0]["name"] in (None, tmp_path.name)
    written = list(tmp_path.rglob(f"run-{found[0]['id']}.{library}"))
    assert len(written) == 2  # one a attempt, which `sync` uploads to one run
    assert proxy.asked == []


@real
@pytest.mark.parametrize("library", ["wandb", "swanlab"])
def test_without_the_server_the_real_library_writes_files(
    tmp_path: Path, library: str, proxy: Proxy
) -> None:
    env = {"WANDB_API_KEY": "x" * 40, "WANDB_BASE_URL": CLOSED, "WANDB_INIT_TIMEOUT": "5"}
    env |= {"SWANLAB_API_KEY": "x" * 21, "SWANLAB_WEB_HOST": CLOSED}
    env |= {"SWANLAB_API_HOST": f"{CLOSED}/api"}
    found = attempt(tmp_path, library, 1, {**env, **proxy.env})
    assert found["seconds"] < 120
    assert list(tmp_path.rglob(f"run-{found['id']}.{library}"))
    assert proxy.asked, "the library does not take the proxy, so the tests prove nothing"
    assert [each for each in proxy.asked if not each.startswith(f"{CLOSED}/")] == []


@needs_training
def test_tensorboard_shows_both_attempts_as_one_curve(tmp_path: Path, proxy: Proxy) -> None:
    attempt(tmp_path, "tensorboard", 1, proxy.env)
    shown = attempt(tmp_path, "tensorboard", 3, proxy.env)["shown"]
    assert [step for step, _ in shown] == [1, 2, 3, 3, 4, 5]
    assert proxy.asked == []


def attempt(home: Path, library: str, first: int, env: dict[str, str]) -> dict[str, Any]:
    command = [str(PYTHON), "-m", "tests.launchers.training.tracker_run", library, str(first)]
    keys = {name for name in os.environ if name.startswith(("WANDB_", "SWANLAB_"))}
    kept = {name: text for name, text in os.environ.items() if name not in keys}
    inside = {**kept, "HOME": str(home), "DPO_RUN_FOLDER": str(home), "NO_PROXY": "", **env}
    inside["PYTHONPATH"] = os.pathsep.join((str(TRACKERS), str(ROOT)))
    done = subprocess.run(
        command, cwd=ROOT, env=inside, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    line = next(each for each in done.stdout.splitlines() if each.startswith('{"id"'))
    found: dict[str, Any] = json.loads(line)
    return found
