"""Run `stop`, `resume` and `rerun`: say what is done, ask, do it."""

from __future__ import annotations

import getpass
import subprocess
import time

from rich.console import Console

from scripts.control import actions
from scripts.control.actions import Action, Change
from scripts.control.cleaning import Ask
from scripts.doctor.api import Answer, Api
from scripts.helm import find_helm
from scripts.manifest import Release, parse_release
from scripts.observe.command import Exit, Target, observe
from scripts.problem import Problem

GONE_SECONDS = 600.0
"""Limit of waiting until a removed JobSet is gone: its pods may still be saving."""
POLL_SECONDS = 1.0


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
