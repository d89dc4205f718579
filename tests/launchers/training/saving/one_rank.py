"""One rank that saves twice with ``Writes`` alone, and fails in the second save.

``-m tests.launchers.training.saving.one_rank PHASE FOLDER``, with torch and without Megatron.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import _StorageWriterTransforms
from torch.distributed.checkpoint.planner_helpers import _create_write_items

from launchers.exits import LaunchError
from launchers.storage import checkpoint
from launchers.training.saving import background
from launchers.training.saving.background import Writes

STUCK = "tests.launchers.training.saving.stuck_writer"


class Once:
    """A store of one rank: nothing is exchanged."""

    def set(self, key: str, value: str | bytes) -> None:
        """Fail."""
        raise AssertionError(key)

    def get(self, key: str) -> bytes:
        """Fail."""
        raise AssertionError(key)

    def check(self, keys: list[str]) -> bool:
        """Fail."""
        raise AssertionError(keys)

    def delete_key(self, key: str) -> bool:
        """Fail."""
        raise AssertionError(key)


def die() -> None:
    """End as a process that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def save(writes: Writes, folder: Path, step: int, phase: str) -> None:
    """Save a step; die in the given phase of the second."""
    where = folder / f"checkpoint-{step}"
    where.mkdir(parents=True)
    ends = phase if step == 2 else ""
    if ends == "full":
        (where / "__0_0.distcp").symlink_to("/dev/full")
    tensor = torch.arange(1000) * step
    items = _create_write_items("weight", tensor)
    objects: list[tuple[Any, Any]] = []
    file = (
        str(where / "__0_0.distcp"),
        "__0_0.distcp",
        objects,
        [(each, tensor) for each in items],
    )

    def index(results: list[list[Any]]) -> None:
        if ends == "written":
            die()
        (where / ".metadata").write_bytes(pickle.dumps(results))
        if ends == "indexed":
            die()

    def complete(_: float) -> None:
        checkpoint.seal(where, step)

    writes.copy([file], [_StorageWriterTransforms()], index)
    if ends == "copied":
        die()
    writes.start(step, lambda: None, complete)


def main() -> None:
    """Save twice."""
    phase, folder = sys.argv[1], Path(sys.argv[2])
    if phase in ("writing", "dead"):
        vars(background)["WRITE_PROCESS"] = STUCK
    writes = Writes(0, 1, Once())
    writes.reserve(100, pins=False)
    try:
        save(writes, folder, 1, phase)
        begin = time.monotonic()
        save(writes, folder, 2, phase)
        waited = time.monotonic() - begin
        if phase in ("writing", "dead"):
            while not (folder / "checkpoint-2" / "__0_0.distcp").exists():
                time.sleep(0.01)
            process = writes._process
            assert process is not None
            print(json.dumps({"writer": process._process.pid}), flush=True)
            if phase == "writing":
                die()
            process._process.kill()
        writes.wait()
    except LaunchError as error:
        print(json.dumps({"id": error.id, "code": error.code, "cause": error.cause}), flush=True)
        return
    print(json.dumps({"waited": waited, "seconds": writes.seconds}), flush=True)


if __name__ == "__main__":
    main()
