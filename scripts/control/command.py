"""Run `stop`, `resume`, `rerun` and `clean`: say what is done, ask, do it."""

from __future__ import annotations

import getpass
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from launchers.config.workspace import Workspace
from scripts.control import actions, inventory, removal
from scripts.control.actions import Action, Change
from scripts.control.cleaning import Held, parse_inventory
from scripts.doctor.api import Answer, Api
from scripts.helm import find_helm
from scripts.manifest import Release, parse_release
from scripts.observe.command import Exit, Target, observe, print_json
from scripts.observe.source import (
    Source,
    folder_in_pod,
    program,
    read_by_pod,
    run_in_pod,
    running_pod,
)
from scripts.plan.units import bytes_text
from scripts.problem import Problem

SCHEMA = 1
GONE_SECONDS = 600.0
"""Limit of waiting until a removed JobSet is gone: its pods may still be saving."""
POLL_SECONDS = 1.0
Ask = Callable[[str], bool]


def stop(target: Target, console: Console, ask: Ask) -> int:
    """Stop a run; its files stay, and `resume` continues it."""
    api = target.connect()
    view, _ = observe(target, api, queue=False, reader=False)
    return _do(api, actions.stop(view, getpass.getuser()), console, ask)


def resume(target: Target, console: Console, ask: Ask) -> int:
    """Put a stopped run back into its queue."""
    api = target.connect()
    view, _ = observe(target, api, queue=False, reader=False)
    return _do(api, actions.resume(view), console, ask)


def rerun(target: Target, console: Console, ask: Ask) -> int:
    """Start a run that has ended again."""
    api = target.connect()
    view, _ = observe(target, api, queue=False, reader=False)
    return _do(api, actions.rerun(view, installed(api, target.run)), console, ask)


def installed(api: Api, run: str) -> Release:
    """Return Helm's record of a release.

    Raises:
        Problem: there is none, or it may not be read.
    """
    words = ["get", "manifest", "--namespace", api.namespace, "--kube-context", api.context]
    command = [str(find_helm()), *words, "--", run]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"Helm has no readable record of {run}: {done.stderr.strip()}")
    return parse_release(done.stdout)


def _do(api: Api, action: Action, console: Console, ask: Ask) -> int:
    console.print(action.says, soft_wrap=True, highlight=False)
    if not action.changes:
        return int(Exit.OK)
    if not ask("Continue?"):
        console.print("nothing was changed")
        return int(Exit.FAILED)
    for change in action.changes:
        answer = _send(api, change)
        if answer.status == 403:
            raise Problem(
                f"you lack the permission: {change.permission}; {action.without_permission}"
            )
        if not answer.found:
            raise Problem(f"{change.permission} was refused: {answer.why}")
        if change.method == "DELETE":
            _await_gone(api, change.path)
    console.print("done")
    return int(Exit.OK)


def _send(api: Api, change: Change) -> Answer:
    if change.method == "PATCH":
        return api.patch(change.path, change.content)
    if change.method == "DELETE":
        return api.delete(change.path, **change.content)
    return api.create(change.path, change.content, dry=False)


def _await_gone(api: Api, path: str) -> None:
    limit = time.monotonic() + GONE_SECONDS
    while not api.get(path).absent:
        if time.monotonic() > limit:
            raise Problem(f"{path} is still there after {GONE_SECONDS:.0f} s; try again later")
        time.sleep(POLL_SECONDS)


def clean(target: Target, console: Console, *, as_data: bool = False) -> int:
    """List what the workspace holds by run; nothing is removed.

    Args:
        target: a run whose pod reads the workspace, unless that is mounted here.
        console: where to print.
        as_data: print the list as one JSON document.

    Raises:
        Problem: the workspace can't be read.
    """
    held = parse_inventory(json.loads(_inventory(target)))
    if as_data:
        print_json(console, {"schema": SCHEMA, "runs": [asdict(each) for each in held]})
    else:
        _list(held, console)
    return int(Exit.OK)


def remove(workspace: Path | None, names: Sequence[str], console: Console, ask: Ask) -> int:
    """Remove runs from a mounted workspace, with their checkpoints and exports.

    Raises:
        Problem: the workspace is not mounted here, or one of the runs must not be removed; then
            none is.
    """
    if workspace is None or not workspace.is_dir():
        raise Problem(
            "runs are removed only where the workspace is mounted: give its folder by --workspace; "
            "to list it through a pod of a run, use --through RUN"
        )
    found = removal.chosen(workspace, names)
    _list(found, console)
    size = bytes_text(sum(each.total for each in found))
    folders = ", ".join(str(Workspace(root=workspace, run=each.run).home) for each in found)
    says = f"Removes these folders with all checkpoints and exports, {size}: {folders}"
    console.print(says, soft_wrap=True, highlight=False)
    if not ask("Continue?"):
        console.print("nothing was changed")
        return int(Exit.FAILED)
    for each in found:
        removal.remove(workspace, each.run)
        console.print(f"removed {each.run}", highlight=False)
    return int(Exit.OK)


def _inventory(target: Target) -> str:
    if target.workspace is not None:
        if not target.workspace.is_dir():
            raise Problem(f"{target.workspace} is not a folder; give that of the workspace")
        return json.dumps(inventory.inventory(target.workspace))
    if not target.run:
        raise Problem(
            "the workspace is not mounted here: give its folder by --workspace, or by --through "
            "RUN a run whose pod reads it (`megatron-dpo list`)"
        )
    api = target.connect()
    view, _ = observe(target, api, queue=False, reader=False)
    if not view.jobset:
        raise Problem(f"there is no run {target.run} in namespace {view.namespace} to read it")
    command = program(inventory, folder_in_pod(view))
    pod = running_pod(view) if target.source in (Source.AUTO, Source.EXEC) else ""
    return run_in_pod(api, pod, command).decode() if pod else read_by_pod(api, view, command)[1]


def _list(held: Sequence[Held], console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("run", "state", "size", "checkpoints", "newest", "export"):
        table.add_column(name, overflow="fold")
    for each in sorted(held, key=lambda one: -one.total):
        table.add_row(
            each.run,
            each.state or "-",
            bytes_text(each.total),
            f"{len(each.checkpoints)}, {bytes_text(each.bytes['checkpoints'])}",
            "-" if each.newest is None else str(each.newest),
            bytes_text(each.bytes["export"]) if each.has_export else "-",
        )
    console.print(table if held else "the workspace holds no run")
