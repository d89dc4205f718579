"""The commands: ``python3 -m launchers run|clone|download|convert|train|check|...``.

``run`` runs all stages that are not skipped; the pods run it. ``clone``, ``download`` and
``convert`` run one stage. ``train`` uses the outputs of the earlier stages unverified. ``check``
refuses a recipe that cannot work and logs the training command; ``check --image`` judges an image.
``verify`` waits for the end of a run and verifies its outputs. ``preflight`` checks GPUs and
network without a run. ``patches`` prints which patches of upstream fit the installed packages;
``patches --write`` adds their sources to those that were read; ``patches --prove`` proves patches
on unknown sources by training on CPU. ``check --image`` and ``patches``
need neither GPU nor settings.
"""

import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from launchers import logs, termination, version
from launchers.config.recipe_file import load
from launchers.config.settings import Settings, describe, from_env, refuse_contradictions
from launchers.exits import Exit, LaunchError
from launchers.hang import alive, workspace_watch
from launchers.inputs.paths import importable, inputs_of
from launchers.inputs.preconditions import check_model, check_recipe, log_command
from launchers.metrics.trainer_log import last_step
from launchers.proof.prove import prove
from launchers.run.check_image import check_image
from launchers.run.preflight_command import preflight, preflight_of_run, with_defaults
from launchers.run.run import run
from launchers.run.stage_command import COMMANDS as STAGE_COMMANDS
from launchers.run.stage_command import run_stage
from launchers.run.verify import verify
from launchers.stop.hold import hold
from launchers.storage import disk, run_lease
from launchers.system import process
from launchers.system.threads import in_thread
from launchers.upstream import digests, patches, record, table

STEP_SECONDS = 2.0
"""Time for reading the last step from the workspace at the end."""
CHECK_IMAGE, WRITE_PATCHES = "check --image", "patches --write"
PROVE_PATCHES = "patches --prove"
COMMANDS = (
    "run",
    *STAGE_COMMANDS,
    "train",
    "check",
    CHECK_IMAGE,
    "verify",
    "preflight",
    "patches",
    WRITE_PATCHES,
    PROVE_PATCHES,
)


def main(argv: list[str], env: Mapping[str, str]) -> int:
    """Run one command; return its exit code (``exits.Exit``)."""
    logs.configure()
    settings: Settings | None = None
    code = Exit.OK
    try:
        command = _command(argv)
        if command == "patches":
            accepted = env.get(patches.ACCEPT, "")
            print(record.table(patches.judge(each, accepted) for each in table.PATCHES))
            return Exit.OK
        if command == WRITE_PATCHES:
            print(*digests.write(f for each in table.PATCHES for f in each.functions), sep="\n")
            return Exit.OK
        if command == PROVE_PATCHES:
            prove(env, print)
            return Exit.OK
        if command == CHECK_IMAGE:
            check_image(env)
            return Exit.OK
        settings = known = from_env(with_defaults(env) if command == "preflight" else env)
        logs.configure(settings.launch.place.rank)
        version.check_installed(settings.gang.launcher_version)
        refuse_contradictions(settings)
        process.raise_on_signals(lambda stopped: _write_end(known, _stopped(stopped), command))
        process.adopt_orphans()
        process.allow_open_files()
        _watch_workspace(known, command)
        run_lease.before_end(lambda lost: _end(known, lost, [command]))
        logs.info(f"{command} start", **describe(settings))
        with alive.beating(settings.reports.alive_file), disk.reporting(settings.launch.workspace):
            _act(command, settings, env)
    except LaunchError as error:
        code = _end(settings, error, argv)
    except process.Stopped as stopped:
        code = _end(settings, _stopped(stopped), argv)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        unknown = LaunchError(
            Exit.PEER, repr(error), "report this as a bug of the launcher", id="unexpected"
        )
        code = _end(settings, unknown, argv)
    if settings is not None and argv == ["run"]:
        hold(settings.reports.hold_seconds, settings.reports.alive_file, code)
    return code


def _command(argv: list[str]) -> str:
    command = " ".join(argv)
    if command not in COMMANDS:
        raise LaunchError(
            Exit.USAGE,
            f"unknown command {command or '(none)'}",
            f"use python3 -m launchers {'|'.join(COMMANDS)}",
            id="command-unknown",
        )
    return command


def _act(command: str, settings: Settings, env: Mapping[str, str]) -> None:
    if command == "preflight":
        preflight(settings, env)
        return
    if command == "train":
        skips = settings.stages.skips | {"clone", "download"}
        settings = replace(settings, stages=replace(settings.stages, skips=skips))
    recipe, env = load(settings.stages.recipe), importable(settings, env)
    if command == "check":
        inputs = inputs_of(settings, recipe)
        check_recipe(settings, recipe, inputs)
        check_model(settings, recipe, inputs, may_ask=True)
        log_command(settings.launch, recipe, inputs)
    elif command in STAGE_COMMANDS:
        run_stage(command, settings, recipe, env)
    elif command == "verify":
        verify(settings, recipe)
    elif settings.stages.preflight.only:
        preflight_of_run(settings, recipe, env)
    else:
        run(settings, recipe, env)


def _stopped(stopped: process.Stopped) -> LaunchError:
    return LaunchError(
        Exit.TERMINATED,
        f"stopped by {stopped}",
        "the next attempt resumes from the last checkpoint",
        id="stopped",
    )


def _end(settings: Settings | None, error: LaunchError, argv: list[str]) -> Exit:
    """Log why the launcher ends, write the termination message, return the exit code."""
    stage = error.stage or (argv[0] if argv else "")
    logs.error(
        "run ended",
        code=int(error.code),
        stage=stage,
        cause=error.cause,
        remedy=error.remedy,
        id=error.id,
    )
    if settings is not None:
        _write_end(settings, error, stage)
    return error.code


def _write_end(settings: Settings, error: LaunchError, stage: str) -> None:
    """Write the termination message, on this node: at once, and again with the last step."""
    end = termination.from_error(error, stage=stage, rank=settings.launch.place.rank)
    termination.write(settings.reports.termination_log, end)
    try:
        step = in_thread(partial(last_step, settings.launch.work.checkpoints), STEP_SECONDS)
    except TimeoutError:
        logs.warning("last step unknown", why="the workspace gives no answer")
        return
    termination.write(settings.reports.termination_log, replace(end, step=step))


def _watch_workspace(settings: Settings, command: str) -> None:
    """End this process if the workspace gives no answer once training has ended."""

    def end(error: LaunchError) -> None:
        logs.error(
            "workspace stalled",
            folder=settings.launch.work.home,
            seconds=settings.training.stall_seconds,
        )
        code = _end(settings, error, [error.stage or command])
        process.kill_descendants()
        os._exit(code)

    limit = settings.training.stall_seconds
    workspace_watch.install(workspace_watch.WorkspaceWatch(settings.launch.work.home, limit, end))
