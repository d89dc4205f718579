"""One rank that saves twice with ``Writes`` alone, and fails in the second save.

``-m tests.launchers.training.saving.one_rank PHASE FOLDER [DISK]``, with torch and without
Megatron. DISK is what happens to the node's disk.
"""

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
from launchers.hang import heartbeat
from launchers.storage import checkpoint, node_disk
from launchers.training.saving import background
from launchers.training.saving.background import Writes
from launchers.training.saving.staging import Staging

STUCK = "tests.launchers.training.saving.stuck_writer"
SMALL = "tests.launchers.training.saving.small_parts"


class Once:
    """A store that one rank alone does not ask."""

    def refuse(self, *given: object) -> Any:
        raise AssertionError(given)

    set = get = check = delete_key = refuse


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def save(writes: Writes, folder: Path, step: int, phase: str) -> None:
    made = folder / f"checkpoint-{step}"
    where = made / "iter"
    where.mkdir(parents=True)
    ends = phase if step == 2 else ""
    if ends == "full":
        (where / "__0_0.distcp").symlink_to("/dev/full")
    tensor = torch.arange(1000) * step
    parts = [(each, tensor) for each in _create_write_items("weight", tensor)]
    objects: list[tuple[Any, Any]] = []
    file = (str(where / "__0_0.distcp"), "__0_0.distcp", objects, parts)

    def index(results: list[list[Any]]) -> None:
        if ends == "written":
            die()
        (where / ".metadata").write_bytes(pickle.dumps(results))
        if ends == "indexed":
            die()

    def complete(_: float) -> None:
        checkpoint.seal(made, step)

    writes.copy([file], [_StorageWriterTransforms()], index)
    if ends == "copied":
        die()
    writes.start(step, lambda: None, complete, lambda found: node_disk.announce(made, found))


def disk(folder: Path, state: str) -> Staging:
    """Return the node's disk: ``good``, ``full``, ``small``, ``broken`` or ``damaged``."""
    root = folder.parent / "disk"
    if state == "broken":
        root.write_text("not a folder")
    if state == "full":
        for step in (1, 2):
            shard = root / f"checkpoint-{step}" / "iter" / "__0_0.distcp"
            shard.parent.mkdir(parents=True)
            shard.symlink_to("/dev/full")
    if state == "damaged":
        digest = checkpoint.digest_own

        def damaging(where: Path, rank: int) -> None:
            digest(where, rank)
            if where.is_relative_to(root):
                shard = where / "iter" / "__0_0.distcp"
                shard.write_bytes(b"x" + shard.read_bytes()[1:])

        vars(checkpoint)["digest_own"] = damaging
    limit = {"small": "100"}.get(state, "0")
    return Staging(0, {node_disk.FOLDER: str(root), node_disk.LIMIT: limit})


def main() -> None:
    phase, folder = sys.argv[1], Path(sys.argv[2])
    if phase in ("writing", "dead"):
        vars(background)["WRITE_PROCESS"] = STUCK
    flushes: list[float] = []
    if phase == "small":
        vars(background)["WRITE_PROCESS"] = SMALL
        heartbeat.current().note_flush = lambda: flushes.append(time.monotonic())  # type: ignore[method-assign]
    writes = Writes(0, 1, Once(), disk(folder, sys.argv[3]) if len(sys.argv) > 3 else None)
    writes.reserve(100, pins=False)
    try:
        save(writes, folder, 1, phase)
        begin = time.monotonic()
        save(writes, folder, 2, phase)
        waited = time.monotonic() - begin
        if phase in ("writing", "dead"):
            while not (folder / "checkpoint-2" / "iter" / "__0_0.distcp").exists():
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
    found = {"waited": waited, "seconds": writes.seconds, "flushes": len(flushes)}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
