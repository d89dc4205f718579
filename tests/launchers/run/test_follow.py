"""Checks of every rank but 0 before it trains."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from launchers.config.settings import from_env
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.gang.peer_monitor import PeerMonitor
from launchers.gang.protocol import Message, StartMessage
from launchers.run import run as running
from launchers.storage.visible import await_outputs
from tests.launchers.recipes import plain
from tests.launchers.stages.checkpoints import sealed


class Stub:
    """A Member that receives a start message."""

    def __init__(self, *_: Any) -> None:
        self.peers = PeerMonitor()
        self.left: list[Exit] = []
        Stub.last = self

    last: Stub

    def await_start_message(self) -> StartMessage:
        return StartMessage(attempt=1, outputs=(("/nowhere", "digest"),))

    def ready(self, answer: Message) -> str:
        return "generation"

    def leave(self, code: Exit, cause: str) -> None:
        self.left.append(code)


def test_a_rank_that_does_not_see_the_outputs_never_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "NODE_RANK": "1", "NNODES": "2"}
    settings = from_env(env | {"MASTER_ADDR": "h", "SKIP_PREFLIGHT": "1"})
    monkeypatch.setattr(running, "Member", Stub)
    monkeypatch.setattr(await_outputs, "__kwdefaults__", {"timeout": 0.0})
    monkeypatch.setattr(running, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(LaunchError, match="/nowhere is missing on this node"):
        running.follow(settings, plain(), env, time.monotonic())
    assert Stub.last.left == [Exit.CONFIG]


def test_a_rank_resumes_only_from_a_checkpoint_that_it_sees_whole(work: Workspace) -> None:
    folder = sealed(work, 5).path
    found = running._await_checkpoint(work, "checkpoint-5", timeout=0)
    assert found is not None and found.step == 5
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(LaunchError) as incomplete:
        running._await_checkpoint(work, "checkpoint-5", timeout=0)
    assert incomplete.value.id == "checkpoint-incomplete"
    assert running._await_checkpoint(work, "", timeout=0) is None
