"""Run `stop`, `resume` and `rerun`: say what is done, ask, do it."""

import getpass
import os
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from scripts.control import actions
from scripts.control.actions import Action, Change
from scripts.control.cleaning import Ask
from scripts.doctor.api import Answer, Api
from scripts.helm import find_helm
from scripts.manifest import Release, parse_release
from scripts.observe.cluster import failure
from scripts.observe.command import Exit, Target, observe
from scripts.observe.view import View
from scripts.problem import Problem, UnknownState, output_of
from scripts.terminal import SCHEMA, print_json
from scripts.why.reasons import missing_run, no_run

GONE_SECONDS = 600.0
"""Limit of waiting until a removed JobSet is gone: its pods may still be saving."""
POLL_SECONDS = 1.0


def stop(target: Target, console: Console, ask: Ask, *, as_data: bool = False) -> int:
    """Stop a run; its files stay, and `resume` continues it."""
    api = target.connect()
    action = actions.stop(_seen(target, api), _user())
    return _do(api, target.run, action, console, ask, as_data=as_data)


def resume(target: Target, console: Console, ask: Ask, *, as_data: bool = False) -> int:
    """Put a stopped run back into its queue."""
    api = target.connect()
    return _do(api, target.run, actions.resume(_seen(target, api)), console, ask, as_data=as_data)


def rerun(target: Target, console: Console, ask: Ask, *, as_data: bool = False) -> int:
    """Start a run that has ended again."""
    api = target.connect()
    view, _ = observe(target, api, queue=False, reader=False)
    if not view.is_answered:
        raise missing_run(view)
    try:
        release = installed(api, target.run)
    except Problem as problem:
        raise Problem(str(problem) if view.jobset else f"{no_run(view)} {problem}") from None
    return _do(api, target.run, actions.rerun(view, release), console, ask, as_data=as_data)


def _seen(target: Target, api: Api) -> View:
    """Return a run whose Workload, which says whether it is stopped, is known.

    Raises:
        UnknownState: the request for it was lost or refused.
    """
    view, _ = observe(target, api, queue=False, reader=False)
    answer = view.snapshot.answer("list workloads")
    if view.queue and answer.unknown:
        raise UnknownState(
            f"whether run {view.run} is stopped is not known, so nothing was changed; "
            f"{failure(answer)}: list workloads ({answer.why})"
        )
    return view


def _user() -> str:
    """Return the person's name; a user of a container may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def installed(api: Api, run: str) -> Release:
    """Return Helm's record of a release.

    Raises:
        Problem: there is none, or it may not be read.
    """
    words = ["get", "manifest", "--namespace", api.namespace, "--kube-context", api.context]
    command = [str(find_helm()), *words, "--", run]
    return parse_release(output_of(command, f"Helm has no readable record of {run}: "))


def _do(api: Api, run: str, action: Action, console: Console, ask: Ask, *, as_data: bool) -> int:
    """Say what is done, ask, do it; with ``as_data`` print one JSON document once it is done."""
    if not as_data:
        console.print(action.says, soft_wrap=True, highlight=False)
    if not action.changes:
        if as_data:
            print_json(console, document(api, run, action))
        return int(Exit.OK)
    if not ask("Continue?"):
        console.print("nothing was changed")
        return int(Exit.FAILED)
    done = ""
    for change in action.changes:
        answer = _send(api, change)
        if answer.lost:
            said = f"whether it was done is not known ({answer.why}); ask `megatron-dpo why {run}`"
            raise UnknownState(f"{done}{change.permission}: {said}")
        if answer.status == 403:
            raise Problem(
                f"{done}you lack the permission: {change.permission}; {action.without_permission}"
            )
        if not answer.found and not (answer.absent and change.method == "DELETE"):
            raise Problem(f"{done}{change.permission} was refused: {answer.why}")
        done += f"{change.permission}: done; "
        if change.method == "DELETE":
            _await_gone(api, change.path, done)
    if as_data:
        print_json(console, document(api, run, action))
    else:
        console.print("done")
    return int(Exit.OK)


def document(api: Api, run: str, action: Action) -> Mapping[str, Any]:
    """Return what was done as JSON data; `requests` is empty if nothing was changed."""
    return {
        "schema": SCHEMA,
        "context": api.context,
        "namespace": api.namespace,
        "run": run,
        "says": action.says,
        "requests": [{"method": each.method, "path": each.path} for each in action.changes],
    }


def _send(api: Api, change: Change) -> Answer:
    if change.method == "PATCH":
        return api.patch(change.path, change.content)
    if change.method == "DELETE":
        return api.delete(change.path, change.content)
    return api.create(change.path, change.content, dry=False)


def _await_gone(api: Api, path: str, done: str) -> None:
    limit = time.monotonic() + GONE_SECONDS
    while not (answer := api.get(path)).absent:
        if not answer.found and (not answer.lost or time.monotonic() > limit):
            raise UnknownState(f"{done}whether {path} is gone is not known ({answer.why})")
        if time.monotonic() > limit:
            raise Problem(f"{path} is still there after {GONE_SECONDS:.0f} s; try again later")
        time.sleep(POLL_SECONDS)
