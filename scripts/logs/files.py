"""Read the logs of an attempt from the workspace, when its pods are gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from launchers.config.workspace import Workspace
from scripts.doctor.api import BLOCK_BYTES, Api
from scripts.observe.source import (
    PYTHON,
    Source,
    folder_in_pod,
    read_by_pod,
    run_in_pod,
    running_pod,
)
from scripts.observe.view import View
from scripts.problem import Problem

PRINT = """
import collections, shutil, sys
with open(sys.argv[1], 'rb') as log:
    if len(sys.argv) > 2:
        sys.stdout.buffer.writelines(collections.deque(log, int(sys.argv[2])))
    else:
        shutil.copyfileobj(log, sys.stdout.buffer)
"""
"""Program that prints a file, or its last lines."""


def read_log(
    api: Api,
    view: View,
    attempt: int,
    rank: int,
    mounted: Path | None,
    source: Source,
    tail: int | None = None,
) -> Iterator[bytes]:
    """Yield the log of one rank's training in an attempt, in blocks.

    Args:
        api: the cluster.
        view: the run with its files.
        attempt: number of the attempt.
        rank: number of the rank.
        mounted: folder where the workspace is mounted here; None for nowhere.
        source: how the workspace may be read.
        tail: its last lines only; None for all.

    Raises:
        Problem: the attempt has no such log, or it can't be read.
    """
    known = {each.number: each for each in view.files.attempts} if view.files else {}
    name = f"node-{rank}.log"
    if attempt not in known:
        given = ", ".join(map(str, known)) or "none"
        raise Problem(f"run {view.run} has no attempt {attempt}; its attempts: {given}")
    if name not in known[attempt].logs:
        kept = ", ".join(known[attempt].logs) or "none"
        raise Problem(f"attempt {attempt} has no log of rank {rank}; its logs: {kept}")
    if mounted is not None and source in (Source.AUTO, Source.MOUNT):
        file = Workspace(root=mounted, run=view.run).attempts / str(attempt) / name
        yield from _blocks(file) if tail is None else _last_lines(file, tail)
        return
    root = Path(folder_in_pod(view))
    path = Workspace(root=root, run=view.run).attempts / str(attempt) / name
    command = [*PYTHON, PRINT, str(path), *([] if tail is None else [str(tail)])]
    pod = running_pod(view) if source in (Source.AUTO, Source.EXEC) else ""
    yield run_in_pod(api, pod, command) if pod else read_by_pod(api, view, command)[1].encode()


def _last_lines(path: Path, count: int) -> Iterator[bytes]:
    with path.open("rb") as handle:
        yield from deque(handle, count)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while block := handle.read(BLOCK_BYTES):
            yield block
