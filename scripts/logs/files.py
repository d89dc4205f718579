"""Read the logs of an attempt from the workspace, when its pods are gone."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.workspace import Workspace
from scripts.doctor.api import BLOCK_BYTES, Api
from scripts.observe.pods import home_in_pod, read_by_pod, run_in_pod, running_pod
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.plan.units import bytes_text
from scripts.problem import Problem, UnknownState

EXEC_BYTES = 4 * 2**20
"""Largest part that one exec returns; a log is read in as many parts as it takes."""
POD_BYTES = 6 * 2**20
"""What a reader pod prints: the kubelet keeps 10 MiB of a pod's log (`containerLogMaxSize`)."""
PART_SECONDS = {"exec": 10.0, "pod": 30.0}
"""Limits of a search in a pod, well below the lifetime of the command or of the pod."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The log of a rank in an attempt, and the lines of it."""

    attempt: int
    rank: int
    tail: int | None = None
    """Its last lines only; None for all."""
    grep: str | None = None
    """Only lines with this pattern; None for all."""


def read_log(
    api: Api,
    view: View,
    wanted: Wanted,
    mounted: Path | None,
    source: Source,
    note: Callable[[str], None],
) -> Iterator[bytes]:
    """Yield the log of one rank's training in an attempt, in blocks.

    In a pod the lines are chosen there; of a mounted file all are returned.
    ``note`` takes a sentence about lines that are left out.

    Raises:
        Problem: the attempt has no such log, or it can't be read.
    """
    known = {each.number: each for each in view.files.attempts} if view.files else {}
    name = f"node-{wanted.rank}.log"
    if wanted.attempt not in known:
        given = ", ".join(map(str, known)) or "none"
        said = f"run {view.run} has no attempt {wanted.attempt}; its attempts: {given}"
        raise absent(view, said, wanted.attempt)
    if name not in known[wanted.attempt].logs:
        kept = ", ".join(known[wanted.attempt].logs) or "none"
        said = f"attempt {wanted.attempt} has no log of rank {wanted.rank}; its logs: {kept}"
        raise absent(view, said, wanted.attempt)
    if mounted is not None and source in (Source.AUTO, Source.MOUNT):
        file = Workspace(root=mounted, run=view.run).attempts / str(wanted.attempt) / name
        yield from _blocks(file) if wanted.tail is None else _last_lines(file, wanted.tail)
        return
    path = Workspace.of(Path(home_in_pod(view))).attempts / str(wanted.attempt) / name
    pod = running_pod(view) if source in (Source.AUTO, Source.EXEC) else ""
    if pod:
        yield from _by_exec(api, view, pod, path, wanted)
    else:
        yield _by_pod(api, view, path, wanted, note)


def absent(view: View, said: str, attempt: int = 0) -> Problem:
    """Return the error that a log is not there, or why the folders that may have it don't tell."""
    found, unread = view.files, ""
    if found is not None:
        ends = ("/attempts'", f"/attempts/{attempt}'")
        unread = next((p for p in found.problems if not found.exists or p.endswith(ends)), "")
    lost = f"whether run {view.run} has this log is not known: {unread}"
    return UnknownState(lost) if unread else Problem(said)


def _request(path: Path, wanted: Wanted, way: str, limit: int) -> dict[str, Any]:
    return {
        "path": str(path),
        "offset": 0,
        "tail": wanted.tail,
        "pattern": wanted.grep,
        "limit": limit,
        "seconds": PART_SECONDS[way],
        "last": way == "pod",
    }


def _words(request: Mapping[str, Any]) -> list[str]:
    return ["state", "--log", json.dumps(request)]


def _by_exec(api: Api, view: View, pod: str, path: Path, wanted: Wanted) -> Iterator[bytes]:
    """Yield the parts of a log; a part may be empty where few lines match."""
    request = _request(path, wanted, "exec", EXEC_BYTES)
    while True:
        about, found = _parse(run_in_pod(api, view, pod, _words(request)))
        yield found
        if about["next"] is None:
            return
        request |= {"offset": about["next"], "tail": None}


def _by_pod(api: Api, view: View, path: Path, wanted: Wanted, note: Callable[[str], None]) -> bytes:
    """Return the end of a log, as much of it as a reader pod prints."""
    request = _request(path, wanted, "pod", POD_BYTES)
    about, found = _parse(read_by_pod(api, view, _words(request))[1].encode())
    log = f"{path.name} of attempt {wanted.attempt}"
    if about["omitted"]:
        note(
            f"{log}: the first {bytes_text(about['omitted'])} are left out, as a reader pod prints "
            f"{bytes_text(POD_BYTES)}; --grep chooses lines, --source exec or --workspace reads all"
        )
    if about["next"] is not None:
        seconds = PART_SECONDS["pod"]
        note(f"{log}: what {seconds:.0f} s did not suffice to search is left out")
    return found


def _parse(output: bytes) -> tuple[dict[str, Any], bytes]:
    """Return what a part is, and the part."""
    head, _, found = output.partition(b"\n")
    try:
        about = json.loads(head)
    except ValueError:
        about = None
    if not isinstance(about, dict) or "next" not in about:
        raise Problem("the pod's output lacks its begin: its log was rotated (containerLogMaxSize)")
    return about, found


def _last_lines(path: Path, count: int) -> Iterator[bytes]:
    with path.open("rb") as handle:
        yield from deque(handle, count)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while block := handle.read(BLOCK_BYTES):
            yield block
