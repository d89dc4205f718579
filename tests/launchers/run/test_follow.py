"""What every rank but 0 checks before it trains."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from launchers.config.recipe import parse
from launchers.config.settings import from_env
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.gang.barrier import Bond
from launchers.run import run as running
from launchers.storage.checkpoint import seal
from launchers.storage.visible import await_outputs


class Stub:
    """Stands for a Member that hears a plan."""

    def __init__(self, *_: Any) -> None:
        self.bond = Bond()
        self.left: list[Exit] = []
        Stub.last = self

    last: Stub

    def await_prepared(self) -> dict[str, Any]:
        return {"outputs": [["/nowhere", "digest"]], "attempt": 1, "resume": "", "skip": ""}

    def ready(self, answer: dict[str, Any]) -> str:
        return "generation"

    def leave(self, code: Exit, cause: str) -> None:
        self.left.append(code)


def test_a_rank_that_does_not_see_the_outputs_never_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"DPO_RUN": "r", "DPO_WORKSPACE": str(tmp_path), "NODE_RANK": "1", "NNODES": "2"}
    settings = from_env(env | {"MASTER_ADDR": "h", "SKIP_PREFLIGHT": "1"})
    source = {"model": "hf://o/m@v", "dataset": ["hf://o/d@v"]}
    recipe = parse({"backend": "megatron", "task": "rlhf", **source})
    monkeypatch.setattr(running, "Member", Stub)
    monkeypatch.setattr(await_outputs, "__kwdefaults__", {"patience": 0.0})
    monkeypatch.setattr(running, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(LaunchError, match="/nowhere is missing on this node"):
        running.follow(settings, recipe, time.monotonic(), env)
    assert Stub.last.left == [Exit.CONFIG]


def test_a_rank_resumes_only_from_a_checkpoint_that_it_sees_whole(tmp_path: Path) -> None:
    work = Workspace(root=tmp_path, run="r")
    folder = work.checkpoints / "checkpoint-5"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    seal(folder, 5)
    found = running._resume(work, "checkpoint-5", patience=0)
    assert found is not None
    assert found.step == 5
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(LaunchError, match="not whole on this node"):
        running._resume(work, "checkpoint-5", patience=0)
    assert running._resume(work, "", patience=0) is None
