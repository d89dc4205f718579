"""`megatron-dpo clean`: list what a workspace holds by run, and remove runs that are named."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from launchers.config.workspace import Workspace
from launchers.state import contents
from scripts.doctor.api import JOBSETS, Api
from scripts.observe.command import Exit, Target, observe
from scripts.observe.pods import (
    CHANGE_SECONDS,
    EXEC_SECONDS,
    OldLauncher,
    folder_in_pod,
    read_by_pod,
    run_in_pod,
    running_pod,
)
from scripts.observe.view import View, terminal_state
from scripts.observe.ways import Source
from scripts.observe.workspace import check_folder, made
from scripts.plan.units import bytes_text
from scripts.problem import Problem, UnknownState
from scripts.terminal import SCHEMA, plain_table, print_json
from scripts.why.reasons import missing_run

Ask = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class Held:
    """Files of one run on the workspace."""

    run: str
    state: str
    """Of progress.json: running, succeeded, failed; empty if it is not known; `removing` for the
    rest of a removal that was interrupted."""
    bytes: Mapping[str, int]
    """By part, and `other`."""
    checkpoints: Sequence[Mapping[str, Any]]
    """`step`, `complete`, `bytes`; in the order of steps."""
    newest: int | None
    """Step of the newest complete checkpoint."""
    export: bool
    may_resume: bool
    """Whether a later start would continue from a checkpoint."""
    updated: float | None
    unread: str
    """The first error of a file that could not be read; empty without one."""
    kept: Sequence[Mapping[str, Any]] = ()
    """`path` and `bytes` of what a user has edited, or another run has left there."""

    @property
    def total(self) -> int:
        """Return the bytes of all its files."""
        return sum(self.bytes.values())


@dataclass(frozen=True, kw_only=True)
class Place:
    """The workspace, and the way to run `launchers clean` there."""

    root: Path
    """Its folder, here or in the pods."""
    api: Api | None = None
    """None where it is mounted here."""
    view: View | None = None
    """The run whose pods mount it."""
    pod: str = ""
    """A pod of that run that runs; empty for a reader pod."""

    @property
    def how(self) -> str:
        """Return the way in words."""
        if self.view is None:
            return f"mounted at {self.root}"
        return f"exec in pod {self.pod}" if self.pod else f"a reader pod of {self.view.run}"

    def call(self, verb: str, *names: str) -> Any:
        """Return the answer of `launchers/state/contents.py`.

        Raises:
            Problem: it could not be run.
        """
        if self.api is None or self.view is None:
            return contents.answer(verb, self.root, names)
        words, changes_files = ["clean", verb, "--", str(self.root), *names], verb != "list"
        if self.pod:
            seconds = CHANGE_SECONDS if changes_files else EXEC_SECONDS
            text = run_in_pod(self.api, self.view, self.pod, words, seconds).decode()
        else:
            _, text = read_by_pod(self.api, self.view, words, changes_files=changes_files)
        try:
            return json.loads(text)
        except ValueError:
            raise Problem(f"the pod printed no document: {text[:200]!r}") from None


def find(target: Target) -> Place:
    """Return the workspace: where it is mounted, otherwise in the pods of a run.

    Raises:
        Problem: there is neither.
    """
    if target.workspace is not None and target.source in (Source.AUTO, Source.MOUNT):
        check_folder(target.workspace)
        return Place(root=target.workspace)
    if not target.run or target.source in (Source.MOUNT, Source.API):
        raise Problem(
            "the workspace is not mounted here: give its folder by --workspace, or by --through "
            "RUN a run whose pods mount it (`megatron-dpo list`)"
        )
    api = target.connect()
    view, _ = observe(replace(target, source=Source.API), api, queue=False, reader=False)
    if not view.jobset:
        if not view.snapshot.answer("get jobsets").absent:
            raise missing_run(view)
        raise Problem(
            f"there is no run {target.run} in namespace {view.namespace} whose pods mount the "
            "workspace; give another one by --through (`megatron-dpo list`), or the folder where "
            "the workspace is mounted by --workspace"
        )
    pod = running_pod(view) if target.source is not Source.POD else ""
    if target.source is Source.EXEC and not pod:
        raise Problem(f"no pod of {target.run} runs")
    return Place(root=Path(folder_in_pod(view)), api=api, view=view, pod=pod)


def read(target: Target, names: Sequence[str] = ()) -> tuple[Place, list[Held]]:
    """Return the workspace in the first way that works, and its runs.

    A pod of ``target`` mounts the workspace, unless that is mounted here; no names: all runs.

    Raises:
        Problem: it can't be read, or one of these runs must not be removed.
    """
    place = find(target)
    try:
        found = place.call("list", *names)
    except OldLauncher:
        raise
    except Problem as problem:
        if not place.pod or target.source is not Source.AUTO:
            raise
        place = replace(place, pod="")
        try:
            found = place.call("list", *names)
        except Problem as second:
            raise Problem(f"{problem}; {second}") from None
    if found["why"]:
        raise Problem(found["why"])
    return place, [made(Held, each) for each in found["runs"]]


def _refuse_live(place: Place, names: Sequence[str]) -> None:
    """Refuse runs whose JobSet would start them again, also without a checkpoint."""
    if place.api is None:
        return
    for name in names:
        answer = place.api.get(JOBSETS.path(place.api.namespace, name))
        if answer.unknown:
            raise UnknownState(
                f"{name}: whether its JobSet may start it again is not known, so nothing is "
                f"removed: get jobsets ({answer.why})"
            )
        if answer.found and not terminal_state(answer.content):
            raise Problem(
                f"{name}: its JobSet has not ended, and may start it again; end it with `helm "
                f"uninstall {name} -n {place.api.namespace} --cascade foreground --wait`; nothing "
                "is removed"
            )


def clean(target: Target, console: Console, *, as_data: bool = False) -> int:
    """List what the workspace holds by run; nothing is removed.

    ``target``: as of ``read``.

    Raises:
        Problem: the workspace can't be read.
    """
    place, held = read(target)
    if as_data:
        found = {"schema": SCHEMA, "workspace": place.how, "runs": [asdict(each) for each in held]}
        print_json(console, found)
    else:
        show(held, console)
    return int(Exit.OK)


def remove(
    target: Target, names: Sequence[str], console: Console, ask: Ask, *, as_data: bool = False
) -> int:
    """Remove runs from the workspace, with their checkpoints and exports.

    The rules of `launchers/state/contents.py` are applied where the workspace is, right before the
    removal, too.
    ``target``: as of ``read``.

    Raises:
        Problem: the workspace can't be reached, or one of the runs must not be removed; then none
            is.
    """
    place, found = read(target, names)
    _refuse_live(place, [each.run for each in found])
    if not as_data:
        show(found, console)
        size = bytes_text(sum(each.total for each in found))
        homes = (Workspace(root=place.root, run=each.run).home for each in found)
        folders = ", ".join(map(str, homes))
        says = f"Removes these folders with all checkpoints and exports, {size}, {place.how}: "
        console.print(f"{says}{folders}", soft_wrap=True, highlight=False)
    if not ask("Continue?"):
        console.print("nothing was changed")
        return int(Exit.FAILED)
    done = place.call("remove", *names)
    if as_data:
        print_json(console, {"schema": SCHEMA, "workspace": place.how, **done})
        return int(Exit.FAILED if done["why"] else Exit.OK)
    for name in done["removed"]:
        console.print(f"removed {name}", highlight=False)
    if done["why"]:
        raise Problem(done["why"])
    return int(Exit.OK)


def show(held: Sequence[Held], console: Console) -> None:
    """Print the runs, the largest first."""
    table = plain_table("run", "state", "size", "checkpoints", "newest", "export")
    for each in sorted(held, key=lambda one: -one.total):
        table.add_row(
            each.run,
            each.state or "-",
            bytes_text(each.total),
            f"{len(each.checkpoints)}, {bytes_text(each.bytes['checkpoints'])}",
            "-" if each.newest is None else str(each.newest),
            bytes_text(each.bytes["export"]) if each.export else "-",
        )
    console.print(table if held else "the workspace holds no run")
    for each in held:
        for kept in each.kept:
            what = f"{each.run} holds {kept['path']}, {bytes_text(kept['bytes'])}"
            console.print(f"{what}: edited, or of another run", soft_wrap=True, highlight=False)
    for each in (one for one in held if one.unread):
        console.print(f"{each.run} was not read in full: {each.unread}", highlight=False)
