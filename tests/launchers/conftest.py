"""Fixtures of the tests of stages, hubs and whole runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers.config.workspace import Workspace
from launchers.system import retry as retry_module
from tests.launchers import git_server
from tests.launchers.fake_hub import FakeHub, serve
from tests.launchers.git_server import GitServer
from tests.launchers.pods import Pods
from tests.launchers.sources import MODEL, PAIRS


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    return Workspace(root=tmp_path / "ws", run="r")


@pytest.fixture
def pods(tmp_path: Path) -> Pods:
    return Pods(tmp_path)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return tmp_path / "git" / "team" / "code"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server.serve(tmp_path / "git") as state:
        yield state


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Isolate git and the hub clients from this machine's HOME, and shorten retries."""
    monkeypatch.setenv("HOME", str(tmp_path))
    policy = retry_module.RetryPolicy(limit=0.6, first=0.01, longest=0.05)
    monkeypatch.setattr(retry_module, "RetryPolicy", lambda: policy)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calm: None) -> Iterator[FakeHub]:
    with serve() as state:
        tokens = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "MODELSCOPE_API_TOKEN")
        for name in (*tokens, "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", state.url)
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", state.url)
        monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("modelscope_hub._download.DOWNLOAD_INTEGRITY_RETRY_BACKOFF", 0.01)
        state.repos = {"models/o/m": dict(MODEL), "datasets/o/d": {"data/pairs.jsonl": PAIRS}}
        yield state
