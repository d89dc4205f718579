"""The proof of a run, for ``helm test``: waits for the run's end and verifies what it left.

``progress.json`` tells how far the run is. It counts when it is of the same recipe and launcher,
and of a run that began after the release was installed: an earlier release of the same name may
have left one that says ``succeeded`` while this one waits in the queue.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings
from launchers.exits import USER, Exit, LaunchError
from launchers.gang.hello import hello
from launchers.run.helm_release import installed
from launchers.storage import manifest, marker
from launchers.storage.marker import Marker
from launchers.storage.output import FULL
from launchers.storage.trainer_log import last_step

POLL = 1.0
NOTICE = 30.0
"""Seconds between two lines about waiting."""
SKEW = 1.0
"""Seconds by which the clocks of Helm's machine and of the nodes may differ."""

Found = Mapping[str, Any]


def prove(settings: Settings, recipe: Recipe) -> None:
    """Wait until the run has ended, and verify what it left.

    Raises:
        LaunchError: the code of a run that failed for good; UNAVAILABLE with where the run stands
            after the deadline; INPUT_MISSING or IO when it left something else than it says.
    """
    digest, since = hello(settings, recipe).digest, installed(settings.release_record)
    stop = time.monotonic() + settings.test_deadline
    told, again = "", 0.0
    while True:
        found = read(settings.work.progress)
        strange = stranger(found, digest, since)
        if not strange and found["state"] == "succeeded":
            verify(settings, recipe, found["outputs"])
            return
        if not strange and found["state"] == "failed" and found["code"] in USER:
            raise failed(settings, found)
        if time.monotonic() >= stop:
            raise late(settings, found, strange)
        now = strange or standing(settings, found)
        if now != told or time.monotonic() >= again:
            logs.info("waiting for the run", seen=now)
            told, again = now, time.monotonic() + NOTICE
        time.sleep(POLL)


def read(path: Path) -> Found:
    """Return what ``progress.json`` says; nothing when there is none."""
    try:
        found: Found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found


def stranger(found: Found, digest: str, since: float | None) -> str:
    """Say why ``progress.json`` is none of this release's run; empty when it is its own.

    >>> stranger({}, "d", 9.0)
    'not started'
    >>> stranger({"digest": "d", "started": 1.0}, "d", 9.0)
    'not started; progress.json is of a run that began 8 s before the release was installed'
    >>> stranger({"digest": "d", "started": 8.0}, "d", 9.0), stranger({"digest": "d"}, "d", None)
    ('', '')
    """
    if not found:
        return "not started"
    if found.get("digest") != digest:
        return "not started; progress.json is of another recipe or launcher"
    if since is not None and found["started"] < since - SKEW:
        early = since - found["started"]
        return (
            "not started; progress.json is of a run that began "
            f"{early:.0f} s before the release was installed"
        )
    return ""


def standing(settings: Settings, found: Found) -> str:
    """Say where this release's run is."""
    stage = found["stage"] or "start"
    if found["state"] == "failed":
        return f"failed in {stage} with exit code {found['code']}: {found['why']}"
    step = last_step(settings.work.checkpoints)
    return f"in {stage}" + ("" if step is None or stage != "train" else f", step {step}")


def failed(settings: Settings, found: Found) -> LaunchError:
    """Say why the run failed, with its own code: no restart will follow."""
    cause = f"run {settings.run} {standing(settings, found)}"
    return LaunchError(Exit(found["code"]), cause, "then uninstall the run and install it again")


def late(settings: Settings, found: Found, strange: str) -> LaunchError:
    """Say where the run is after the deadline."""
    look = f"kubectl get jobsets,pods | grep {settings.run}, and with Kueue kubectl get workloads"
    if strange:
        remedy = f"it waits in the queue, or its pods cannot start: {look}"
    elif found["state"] == "failed":
        remedy = f"the JobSet restarts it up to restarts.max times: {look}"
    else:
        remedy = "test again later, or with a longer test.deadlineSeconds and helm test --timeout"
    where = strange or standing(settings, found)
    return LaunchError(
        Exit.UNAVAILABLE, f"run {settings.run} after {settings.test_deadline} s: {where}", remedy
    )


def verify(settings: Settings, recipe: Recipe, outputs: Sequence[Sequence[str]]) -> None:
    """Verify what a run that succeeded has left.

    Args:
        settings: the settings of the run.
        recipe: its recipe.
        outputs: path and digest of what its stages before training made.

    Raises:
        LaunchError: INPUT_MISSING or IO when something else is there.
    """
    if "train" in settings.skips:
        for path, digest in outputs:
            _same(Path(path), digest)
        logs.info("run proved: SKIP_TRAIN=1", outputs=len(outputs))
        return
    export = settings.work.export
    there = marker.read(export)
    if there is None or there.inputs.get("recipe") != recipe.digest:
        raise _changed(f"{export} is not what this recipe leaves")
    _whole(export, there)
    held = {"files": len(there.manifest), "bytes": manifest.total(there.manifest)}
    logs.info("run proved", export=export, **held, recipe=recipe.digest[:12])


def _same(path: Path, digest: str) -> None:
    there = marker.read(path)
    if there is None or marker.digest(there) != digest:
        raise _changed(f"{path} is not what the run left there")
    if not there.inputs.get("in place"):  # else the files are elsewhere
        _whole(path, there)


def _whole(path: Path, there: Marker) -> None:
    problems = manifest.verify(path, there.manifest, manifest.total(there.manifest) <= FULL)
    if problems:
        raise LaunchError(Exit.IO, f"{path}: {problems[0]}", "look at the workspace's storage")


def _changed(cause: str) -> LaunchError:
    return LaunchError(
        Exit.INPUT_MISSING, f"the run says succeeded, and {cause}", "install the run again"
    )
