"""Choose how the files of a run are read: mounted here, in a pod of the run, in a reader pod.

In a pod the run's own launcher reads them: `python3 -m launchers state --json`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launchers.system.atomic_file import FOREIGN
from scripts.doctor.api import Api
from scripts.observe.cluster import is_true
from scripts.observe.pods import (
    EXEC_SECONDS,
    OldLauncher,
    home_in_pod,
    read_by_pod,
    run_in_pod,
    running_pod,
)
from scripts.observe.view import View
from scripts.observe.ways import Source
from scripts.observe.workspace import RunFiles, parse_run, read_run
from scripts.problem import Problem, WrongUse


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The files of a run, or why they were not read."""

    files: RunFiles | None
    how: str
    """In words, such as `exec in pod dpo-node-0-0-x7k2p`."""
    notes: tuple[str, ...] = ()
    """Ways that were tried before, and why each failed."""


class Unread(Problem):
    """No way to a run's files works."""

    def __init__(self, *tried: str) -> None:
        """Say why each of the ways that were `tried` failed."""
        super().__init__("; ".join(tried))
        self.tried = tried


def read_files(
    api: Api, view: View, mounted: Path | None, source: Source = Source.AUTO, *, reader: bool = True
) -> Reading:
    """Read a run's files in the first way that works.

    AUTO tries all ways; ``mounted`` is a folder here, and ``reader`` allows a reader pod.

    Raises:
        Problem: the mounted path is not a folder, or the chosen way does not work.
    """
    if mounted is not None and source in (Source.AUTO, Source.MOUNT):
        files = read_run(mounted, view.run)
        is_absent = not files.exists and not files.problems
        has_none = is_absent and (may_have_files(view) or not view.is_answered)
        known = f"; its runs: {', '.join(files.known[:10])}" if files.known else ""
        absent = (f"{mounted} has no runs/{view.run}; is it the workspace of this run?{known}",)
        how = f"mounted at {mounted}"
        return Reading(files=files, how=how, notes=absent if has_none else ())
    if source is Source.MOUNT:
        raise WrongUse("no folder given; use --workspace with the folder of the workspace")
    notes: tuple[str, ...] = ()
    if view.gang and source is not Source.API:
        is_useful = reader and may_have_files(view)
        try:
            output, how, tried = ask(
                api,
                view,
                source,
                lambda _: ("state", "--json", home_in_pod(view)),
                reader=is_useful,
            )
            return Reading(files=_parse(output), how=how, notes=tuple(tried))
        except Unread as problem:
            notes = problem.tried
        except Problem as problem:
            notes = (str(problem),)
        if notes and source is not Source.AUTO:
            raise Problem("; ".join(notes))
    how = "not read; what follows is from the API alone" if view.is_answered else "not read"
    return Reading(files=None, how=how, notes=notes)


def ask(
    api: Api,
    view: View,
    source: Source,
    words: Callable[[bool], Sequence[str]],
    *,
    seconds: float = EXEC_SECONDS,
    reader: bool = True,
) -> tuple[bytes, str, list[str]]:
    """Run a command of the run's launcher: in a pod that runs, otherwise in a reader pod.

    ``words`` takes whether a reader pod will run the command; AUTO tries both ways.

    Returns:
        What it has printed, the way in words, and why the ways that were tried before failed.

    Raises:
        Unread: no way works.
    """
    tried: list[str] = []
    pod = running_pod(view) if source is not Source.POD else ""
    if source is Source.EXEC and not pod:
        tried.append(f"no pod of {view.run} runs")
    try:
        if pod:
            try:
                output = run_in_pod(api, view, pod, words(False), seconds)
                return output, f"exec in pod {pod}", tried
            except OldLauncher:
                raise
            except Problem as problem:
                tried.append(str(problem))
        if source is Source.POD or (source is Source.AUTO and reader):
            name, text = read_by_pod(api, view, words(True))
            return text.encode(), f"reader pod {name}, removed again", tried
    except Problem as problem:
        tried.append(str(problem))
    raise Unread(*tried)


def may_have_files(view: View) -> bool:
    """Return whether the run has had pods."""
    was_evicted = is_true(view.workload, "Evicted")
    return bool(view.gang) and bool(view.ranks or view.restarts[0] or view.terminal or was_evicted)


def _parse(output: bytes) -> RunFiles:
    try:
        return parse_run(json.loads(output))
    except FOREIGN:
        raise Problem(f"the pod printed no document: {output[:200]!r}") from None
