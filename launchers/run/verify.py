"""The command ``verify``, for ``helm test``: waits for the end of a run and verifies its outputs.

``progress.json`` holds the state of the run. It belongs to this release when recipe and launcher
are the same and the run began after the release was installed: an earlier release of the same name
may have left ``succeeded`` while this one is still queued.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.recipe import Recipe
from launchers.config.settings import Launch, Settings
from launchers.exits import USER, Exit, LaunchError
from launchers.gang.protocol import Hello
from launchers.metrics.trainer_log import last_step
from launchers.progress.training import log_held_out, log_rows
from launchers.run.helm_release import installation_time
from launchers.storage import manifest, marker
from launchers.storage.marker import Marker
from launchers.storage.output import FULL
from launchers.system import lookup
from launchers.system.atomic_file import read_object
from launchers.system.remedies import STORAGE_REMEDY

POLL_INTERVAL_SECONDS = 1.0
LOG_INTERVAL_SECONDS = 30.0
"""Interval of the log events while waiting."""
CLOCK_SKEW_SECONDS = 1.0
"""Tolerated difference between the clocks of Helm's machine and of the nodes."""

State = Mapping[str, Any]
"""The content of ``progress.json``."""


def verify(settings: Settings, recipe: Recipe) -> None:
    """Wait until the run has ended, and verify its outputs.

    Raises:
        LaunchError: the code of a run that failed for good; UNAVAILABLE with the state of the run
            after the deadline; INPUT_MISSING or IO when its outputs are not what it recorded.
    """
    digest = Hello.of_run(settings, recipe).digest
    since = installation_time(settings.reports.release_record)
    stop = time.monotonic() + settings.reports.test_deadline
    logged, log_again = "", 0.0
    while True:
        state: State = read_object(settings.launch.work.progress)
        not_started = not_started_reason(state, digest, since)
        if not not_started and state["state"] == "succeeded":
            verify_outputs(settings, recipe, state["outputs"])
            log_rows(state.get("training", {}))
            log_held_out(state.get("training", {}))
            return
        if not not_started and state["state"] == "failed" and state["code"] in USER:
            raise failure(settings.launch, state)
        if time.monotonic() >= stop:
            raise timed_out(settings, state, not_started)
        now = not_started or describe(settings.launch, state)
        if now != logged or time.monotonic() >= log_again:
            logs.info("waiting for the run", seen=now)
            logged, log_again = now, time.monotonic() + LOG_INTERVAL_SECONDS
        time.sleep(POLL_INTERVAL_SECONDS)


def not_started_reason(state: State, digest: str, since: float | None) -> str:
    """Return why ``progress.json`` does not belong to this release's run; empty when it does.

    >>> not_started_reason({}, "d", 9.0)
    'not started'
    >>> not_started_reason({"digest": "d", "started": 1.0}, "d", 9.0)
    'not started; progress.json belongs to a run that began 8 s before the release was installed'
    >>> not_started_reason({"digest": "d", "started": 8.0}, "d", 9.0)
    ''
    >>> not_started_reason({"digest": "d"}, "d", None)
    ''
    """
    if not state:
        return "not started"
    if state.get("digest") != digest:
        return "not started; progress.json belongs to another recipe or launcher"
    if since is not None and state["started"] < since - CLOCK_SKEW_SECONDS:
        early = since - state["started"]
        return (
            "not started; progress.json belongs to a run that began "
            f"{early:.0f} s before the release was installed"
        )
    return ""


def describe(launch: Launch, state: State) -> str:
    """Describe the state of this release's run: its stage and step, or why it failed."""
    stage = state["stage"] or "start"
    if state["state"] == "failed":
        return f"failed in {stage} with exit code {state['code']}: {state['why']}"
    step = last_step(launch.work.checkpoints)
    return f"in {stage}" + ("" if step is None or stage != "train" else f", step {step}")


def failure(launch: Launch, state: State) -> LaunchError:
    """Build the error of a run that failed for good, with the run's exit code."""
    cause = f"run {launch.run} {describe(launch, state)}"
    return LaunchError(
        Exit(state["code"]),
        cause,
        "correct the cause, then uninstall the run and install it again",
        id="run-failed",
    )


def timed_out(settings: Settings, state: State, not_started: str) -> LaunchError:
    """Build the error of a run that has not ended by the deadline."""
    run = settings.launch.run
    look = f"kubectl get jobsets,pods | grep {run}, and with Kueue kubectl get workloads"
    if not_started:
        remedy = f"it waits in the queue, or its pods cannot start: {look}"
    elif state["state"] == "failed":
        remedy = f"the JobSet restarts it up to restarts.max times: {look}"
    else:
        remedy = "test again later, or raise test.deadlineSeconds and helm test --timeout"
    where = not_started or describe(settings.launch, state)
    return LaunchError(
        Exit.UNAVAILABLE,
        f"run {run} after {settings.reports.test_deadline} s: {where}",
        remedy,
        id="run-late",
    )


def verify_outputs(settings: Settings, recipe: Recipe, outputs: Sequence[Sequence[str]]) -> None:
    """Verify the outputs of a run that succeeded.

    Raises:
        LaunchError: INPUT_MISSING or IO when an output is missing, different or damaged.
    """
    if settings.launch.rehearse:
        if not lookup.is_file(settings.launch.rehearsal_report):
            raise _changed("rehearsal-report", f"{settings.launch.rehearsal_report} does not exist")
        logs.info("rehearsal verified", report=settings.launch.rehearsal_report)
        return
    if "train" in settings.stages.skips or recipe.script:
        for path, digest in outputs:
            _verify_marker(Path(path), digest)
        why = "a script has no export" if recipe.script else "SKIP_TRAIN=1"
        logs.info(f"run verified: {why}", outputs=len(outputs))
        return
    export = settings.launch.work.export
    there = marker.read(export)
    settled = [each.identity for each in recipe.settled]
    if there is None or there.inputs.get("recipe") not in settled:
        raise _changed("export-changed", f"{export} was not made by this recipe")
    _verify_files(export, there)
    held = {"files": len(there.manifest), "bytes": manifest.total(there.manifest)}
    logs.info("run verified", export=export, **held, recipe=recipe.digest[:12])


def _verify_marker(path: Path, digest: str) -> None:
    there = marker.read(path)
    if there is None or marker.digest(there) != digest:
        raise _changed("output-changed", f"{path} has changed since the run")
    if not there.inputs.get("in place"):  # otherwise the files are elsewhere
        _verify_files(path, there)


def _verify_files(path: Path, there: Marker) -> None:
    problems = manifest.verify(path, there.manifest, manifest.total(there.manifest) <= FULL)
    if problems:
        raise LaunchError(Exit.IO, f"{path}: {problems[0]}", STORAGE_REMEDY, id="export-damaged")


def _changed(id: str, cause: str) -> LaunchError:
    return LaunchError(
        Exit.INPUT_MISSING, f"the run succeeded, but {cause}", "install the run again", id=id
    )
